"""The official SDK's own client, which checks each answer against the protocol and each result against its tool's schema."""

import sys
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.support.daemon import Daemon


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_asks(mode: str, tmp_path: Path) -> None:
    """Every tool and every resource, with progress; it first asks for a protocol that is yet to come, or does not."""
    with Daemon() as daemon:
        daemon.fill(3)
        given = {key: value for key, value in daemon.environ().items() if key != "NOTIFY_SOCKET"}
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "sesamectl", "mcp"], env=given, cwd=str(tmp_path)
        )
        async with Client(stdio_client(command), mode=mode) as client:
            tools = await client.list_tools()
            assert [tool.name for tool in tools.tools][:3] == ["search_sessions", "read_session", "list_sessions"]
            for tool, arguments in (
                ("search_sessions", {"query": "quince", "limit": 2}),
                ("read_session", {"session": "session-1"}),
                ("list_sessions", {"limit": 1}),
                ("get_session_meta", {"session": "session-1"}),
            ):
                result = await client.call_tool(tool, arguments)
                assert not result.is_error
                assert result.structured_content is not None
                assert "quince" in result.structured_content["text"]
            listed = await client.list_resources()
            assert len(listed.resources) == 3
            read = await client.read_resource(listed.resources[0].uri)
            assert "> quince" in read.contents[0].text  # type: ignore[union-attr]  # not a blob
            templates = await client.list_resource_templates()
            assert len(templates.resource_templates) == 2
            refused = await client.call_tool("search_sessions", {"quer": "x"})
            assert refused.is_error
