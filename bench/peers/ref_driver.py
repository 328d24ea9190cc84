"""Reference driver: the least a durable, resumable driver needs.  argv: url[,url..] concurrency_total input outdir limit
least-outstanding pull over N servers; JSONL results; group commit (fdatasync every 256 rows or 0.5 s); a 16-byte-per-row
ledger (row number, offset) is written after the data is on disk, and is all that a resume reads (plus a check of the data's tail)."""

import asyncio, os, struct, sys, time
import orjson

urls, C, inp, out, lim = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
os.makedirs(out, exist_ok=True)
D, G = out + "/out.jsonl", out + "/done.led"


class P(asyncio.Protocol):
    __slots__ = ("b", "need", "fut", "t", "status")

    def __init__(s):
        s.b = []
        s.need = -1
        s.fut = None

    def connection_made(s, t):
        s.t = t

    def connection_lost(s, e):
        if s.fut and not s.fut.done():
            s.fut.set_exception(ConnectionError())

    def data_received(s, d):
        if s.need < 0:
            if s.b:
                d = b"".join(s.b) + d
                s.b = []
            e = d.find(b"\r\n\r\n")
            if e < 0:
                s.b.append(d)
                return
            h = d[:e].lower()
            k = h.find(b"content-length:")
            z = h.find(b"\r\n", k)
            s.need = int(h[k + 15 : z if z > 0 else e])
            s.status = int(h[9:12])
            d = d[e + 4 :]
        s.b.append(d)
        s.need -= len(d)
        if s.need <= 0:
            f, s.fut = s.fut, None
            b = s.b
            s.b = []
            s.need = -1
            f.set_result(b[0] if len(b) == 1 else b"".join(b))


async def main():
    t0 = time.perf_counter()
    end = 0
    done = set()
    if os.path.exists(G):
        g = open(G, "rb").read()
        g = g[: len(g) // 16 * 16]
        for i, o in struct.iter_unpack("<QQ", g):
            done.add(i)
            end = max(end, o)
        os.truncate(G, len(g))
        with open(D, "r+b") as f:
            f.truncate(end)  # rows past the last ledger commit were never acknowledged
    print("resume", len(done), f"{time.perf_counter() - t0:.3f}s", flush=True)
    df = open(D, "ab", buffering=1 << 20)
    gf = open(G, "ab")
    pos = df.tell()
    buf = []
    loop = asyncio.get_running_loop()
    fl = asyncio.Event()
    stop = False
    n_ok = 0

    async def flusher():
        nonlocal buf
        while not (stop and not buf):
            try:
                await asyncio.wait_for(fl.wait(), 0.5)
            except asyncio.TimeoutError:
                pass
            fl.clear()
            b, buf = buf, []
            if b:
                await loop.run_in_executor(None, commit, b)

    def commit(b):
        nonlocal pos
        led = []
        for i, l in b:
            df.write(l)
            pos += len(l)
            led.append(struct.pack("<QQ", i, pos))
        df.flush()
        os.fdatasync(df.fileno())
        gf.write(b"".join(led))
        gf.flush()
        os.fdatasync(gf.fileno())

    src = enumerate(open(inp, "rb"))
    idle = [[] for _ in urls]
    load = [0] * len(urls)
    per = -(-C // len(urls))
    hp = [u.replace("http://", "").split(":") for u in urls]

    async def worker(k):
        nonlocal n_ok
        for i, line in src:
            if i >= lim:
                return
            if i in done:
                continue
            d = orjson.loads(line)
            body = orjson.dumps(
                {"model": "mock", "messages": d["conversations"], "max_tokens": 8000, "temperature": 0.6}
            )
            d_id = d["id"]
            for att in range(6):
                try:
                    p = idle[k].pop() if idle[k] else (await loop.create_connection(P, hp[k][0], int(hp[k][1])))[1]
                    p.fut = f = loop.create_future()
                    p.t.write(
                        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                        % (len(body), body)
                    )
                    r = await f
                    idle[k].append(p)
                    if p.status == 200:
                        break
                except OSError:
                    pass
                await asyncio.sleep(0.05 * 2**att)
            else:
                continue
            c = orjson.loads(r)
            m = c["choices"][0]
            if len(m["message"]["content"]) < 8:
                continue  # the quality gate's place
            buf.append(
                (
                    i,
                    orjson.dumps(
                        {
                            "id": d_id,
                            "conversations": d["conversations"]
                            + [
                                {
                                    "role": "assistant",
                                    "content": m["message"]["content"],
                                    "reasoning_content": m["message"].get("reasoning_content"),
                                }
                            ],
                            "finish": m["finish_reason"],
                            "usage": c["usage"],
                            "rid": c["id"],
                        }
                    )
                    + b"\n",
                )
            )
            n_ok += 1
            if len(buf) >= 256:
                fl.set()

    ft = asyncio.create_task(flusher())
    await asyncio.gather(*[worker(j % len(urls)) for j in range(C)])
    stop = True
    fl.set()
    await ft
    print("rows", len(done) + n_ok, flush=True)


import uvloop

uvloop.run(main())
