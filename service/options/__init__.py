"""The options of requests beside their inputs. They have the same names in a query string, a form and JSON."""
