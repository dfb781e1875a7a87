"""The submitter's part of the main job with PyPI's mcp: arguments are the URL of /mcp and the mode; token and task come
from the environment. Prints what the client saw, as JSON, in the form that mcp_clients.test.mjs expects of each."""

import asyncio
import json
import os
import sys

from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client


def seen(result):
    return {
        "isError": bool(result.is_error),
        "text": "".join(block.text for block in result.content if block.type == "text"),
        "images": [[block.mime_type, block.data] for block in result.content if block.type == "image"],
        "data": result.structured_content,
    }


async def main(url, mode):
    headers = {"Authorization": f"Bearer {os.environ['OWNER_TOKEN']}"}
    async with create_mcp_http_client(headers=headers) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            tools = (await client.list_tools()).tools
            task = json.loads(os.environ["TASK"])
            refused = seen(await client.call_tool("submit_task", {**task, "executor": "nobody"}))
            wrong = seen(await client.call_tool("submit_task", {"title": "No instructions", "executor": "bot"}))
            submitted = seen(await client.call_tool("submit_task", {**task, "executor": "bot"}))
            task_id = submitted["data"]["task_id"]
            states = []
            while not states or states[-1]["data"]["state"] not in ("completed", "failed", "canceled"):
                arguments = {"task_id": task_id, "wait_seconds": 20}
                states.append(seen(await client.call_tool("get_task", arguments)))
            files = []
            for file in states[-1]["data"]["attachments"]:
                files.append(seen(await client.call_tool("get_attachment", {"file_id": file["file_id"]})))
            listed = seen(await client.call_tool("list_tasks", {}))
            print(json.dumps({
                "version": client.protocol_version,
                "server": client.server_info.name,
                "tools": [tool.name for tool in tools],
                "described": all(t.title and t.description and t.output_schema and t.annotations for t in tools),
                "refused": refused,
                "wrong": wrong,
                "submitted": submitted,
                "states": states,
                "files": files,
                "listed": listed,
            }))


asyncio.run(main(*sys.argv[1:]))
