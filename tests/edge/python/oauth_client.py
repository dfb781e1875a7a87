"""A sign-in with PyPI's mcp, told step by step in lines of JSON. Arguments: the URL of /mcp, the redirect address, and
the address of the client's document, if it has one.

It says {"authorize": url} whenever it sends its user to the browser, and then waits for the parameters that came back to
the redirect address. It says {"tokens": ...} whenever it stores tokens. It is told {"call": tool, "arguments": {...}},
and says {"result": ...} or {"error": ...}; {"later": seconds} puts its clock and that of its requests forward."""

import asyncio
import json
import sys
import time

from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata


def say(value):
    print(json.dumps(value), flush=True)


async def hear():
    line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    if not line:
        sys.exit(0)
    return json.loads(line)


class Storage:
    def __init__(self):
        self.tokens = None
        self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens
        say({"tokens": tokens.model_dump()})

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def ask(url):
    say({"authorize": url})


async def answered():
    return AuthorizationCodeResult(**await hear())


async def main(url, redirect_uri, document=None):
    described = OAuthClientMetadata(
        client_name="PyPI's mcp", redirect_uris=[redirect_uri], token_endpoint_auth_method="none"
    )
    auth = OAuthClientProvider(url, described, Storage(), ask, answered, document)
    ahead = 0

    async def at_its_time(request):
        if ahead:
            request.headers["x-test-now"] = str(int((time.time() + ahead) * 1000))

    async with create_mcp_http_client(auth=auth) as http:
        http.event_hooks["request"].append(at_its_time)
        async with Client(streamable_http_client(url, http_client=http), mode="auto") as client:
            say({"connected": client.protocol_version, "client_id": auth.context.client_info.client_id})
            while True:
                order = await hear()
                if "later" in order:
                    ahead += order["later"]
                    auth.context.token_expiry_time -= order["later"]
                    continue
                try:
                    result = await client.call_tool(order["call"], order.get("arguments", {}))
                    say({"result": result.structured_content, "is_error": bool(result.is_error)})
                except Exception as error:
                    say({"error": repr(error)})


asyncio.run(main(*sys.argv[1:]))
