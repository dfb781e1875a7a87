"""Sends and fetches files with http.client, which looks at no answer before it has sent all. One line of JSON a command."""

import hashlib
import http.client
import json
import sys
from urllib.parse import urlsplit

PART = 65536


def answer(response):
    body = response.read()
    return {"status": response.status, "body": body.decode("utf-8", "replace"), "headers": dict(response.getheaders())}


def parts(path, pause_after, repeat):
    sent = 0
    for _ in range(repeat):
        with open(path, "rb") as file:
            while part := file.read(PART):
                yield part
                sent += len(part)
                if pause_after is not None and sent >= pause_after:
                    pause_after = None
                    print(json.dumps({"paused": sent}), flush=True)
                    sys.stdin.readline()


def put(connection, target, wish):
    path, headers = wish["path"], wish.get("headers", {})
    body = parts(path, wish.get("pause_after"), wish.get("repeat", 1))
    if wish.get("chunked"):
        connection.request("PUT", target, body=body, headers=headers, encode_chunked=True)
    else:
        connection.putrequest("PUT", target)
        for name, value in {**headers, "Content-Length": str(wish["length"])}.items():
            connection.putheader(name, value)
        connection.endheaders()
        for part in body:
            connection.send(part)
    return answer(connection.getresponse())


def get(connection, target, wish):
    connection.request("GET", target, headers=wish.get("headers", {}))
    response = connection.getresponse()
    digest, size = hashlib.sha256(), 0
    while part := response.read(PART):
        digest.update(part)
        size += len(part)
    return {"status": response.status, "sha256": digest.hexdigest(), "size": size, "headers": dict(response.getheaders())}


for line in sys.stdin:
    wish = json.loads(line)
    url = urlsplit(wish["url"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    target = url.path + (f"?{url.query}" if url.query else "")
    try:
        said = {"put": put, "get": get}[wish["do"]](connection, target, wish)
    except Exception as error:  # Whatever goes wrong is what the test wants to know.
        said = {"error": f"{type(error).__name__}: {error}"}
    connection.close()
    print(json.dumps(said), flush=True)
