"""The web page: its files, the viewer of the documentation, and how both are served."""
