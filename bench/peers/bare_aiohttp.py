"""The least that aiohttp itself costs: ask, read, parse, keep nothing.  argv: url in_flight input limit"""

import asyncio
import sys

import aiohttp
import msgspec
import uvloop


async def main() -> None:
    url, in_flight, path, limit = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    rows = iter(open(path, "rb").readlines()[:limit])  # noqa: SIM115, PTH123
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:

        async def lane() -> None:
            for line in rows:
                row = msgspec.json.decode(line)
                body = {"model": "mock", "messages": row["conversations"], "max_tokens": 8000, "temperature": 0.6}
                headers = {"Content-Type": "application/json"}
                data = msgspec.json.encode(body)
                async with session.post(f"{url}/v1/chat/completions", data=data, headers=headers) as reply:
                    msgspec.json.decode(await reply.read())

        await asyncio.gather(*(lane() for _ in range(in_flight)))


uvloop.run(main())
