"""nginx before a replica, with its defaults: it takes in the whole body, and asks in HTTP/1.0."""

from tests.rigs.proxy import Proxy

CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 0;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{replica};
            {options}
        }}
    }}
}}
"""
UNBUFFERED = "proxy_http_version 1.1; proxy_request_buffering off;"


class Nginx(Proxy):
    """nginx before a replica at a port."""

    name, options = "nginx", ("-p", "{folder}", "-e", "error", "-c")

    def __init__(self, replica: int, options: str = "") -> None:
        super().__init__(CONFIGURATION, replica=replica, options=options)
