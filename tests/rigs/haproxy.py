"""A proxy before two replicas: a minimal configuration, only of what rigs rely on."""

from collections.abc import Sequence

from tests.rigs.proxy import Proxy

CONFIGURATION = """
global
    maxconn 2000

defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    timeout queue 5s
    timeout check 2s
    option redispatch 1
    retries 3
    # what was not sent can be sent elsewhere; what was sent may have been done
    retry-on conn-failure

frontend regard
    bind 127.0.0.1:{port}
    default_backend replicas

backend replicas
    balance leastconn
    option httpchk
    http-check send meth GET uri /health/ready ver HTTP/1.1 hdr Host localhost
    http-check expect status 200
    http-response set-header X-Replica %[srv_name]
    default-server check inter 500ms fall 1 rise 1
{servers}
"""


class Haproxy(Proxy):
    """haproxy before replicas at some ports."""

    name, options = "haproxy", ("-db", "-f")
    settle = 0.6
    """The seconds in which every replica is checked once."""

    def __init__(self, replicas: Sequence[int]) -> None:
        servers = "\n".join(f"    server replica{port} 127.0.0.1:{port}" for port in replicas)
        super().__init__(CONFIGURATION, servers=servers)
