"""What only deploys: the proxy's, Prometheus's and Grafana's configuration, and the audit of what images install."""
