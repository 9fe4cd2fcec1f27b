#!/usr/bin/python3
"""diary is an informd handler in Python. For each change, it appends a line of JSON to the file
that its config names. The config can also ask for related objects from informd's cache in that
line, and for an Event in the cluster.

It needs grpcio and protobuf, and the modules handler_pb2 and cache_pb2 beside it. README.md shows
how to generate them from informd's handler.proto and cache.proto. To write your own handler, change
Diary: configure, handle, health and drain. The rest speaks the protocol and can stay as it is.
"""

import json
import os
import signal
import stat
import sys
import tempfile
import threading
import traceback
from concurrent import futures
from queue import SimpleQueue

import grpc

import cache_pb2
import handler_pb2 as pb


class Retry(Exception):
    """Raised by handle to get the event again, after at least that many seconds. With 0, informd
    decides when."""

    def __init__(self, reason, after=0):
        super().__init__(reason)
        self.after = after


class Reject(Exception):
    """Raised by handle for an event that it can never handle. The event becomes a dead letter."""


class Diary:
    # Events that hang keep their threads, so there are many more than the others need: 8 and 128 by
    # informd's defaults. A thread starts when it is needed first.
    name, version, threads = "diary", "1.0", 150

    def __init__(self):
        self.cache = Cache(os.environ.get("INFORMD_CACHE_SOCKET"))
        self.file, self.source, self.index, self.tell = None, "", "", False

    def configure(self, config):
        """Returns the mistakes in the config, as pairs of path and message."""
        known = {"file": str, "related": str, "tell": bool}
        problems = [([key], f"unknown; known are {', '.join(known)}") for key in config if key not in known]
        problems += [([key], f"want a {kind.__name__}") for key, kind in known.items()
                     if not isinstance(config.get(key, kind()), kind)]
        if problems:
            return problems
        self.source, _, self.index = config.get("related", "").partition(".")
        self.tell = config.get("tell", False)
        if config.get("related") and not (self.source and self.index and self.cache.channel):
            problems.append((["related"], "want SOURCE.INDEX, and a manifest whose access.read has the source"))
        if not config.get("file"):
            return problems + [(["file"], "required: the path that lines are appended to")]
        try:
            if not problems:
                self.file = os.open(config["file"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as e:
            problems.append((["file"], str(e)))
        return problems

    def handle(self, event):
        """Handles one pb.Event. Returns the actions, each a pb.Action, that informd should perform
        in the cluster. Several threads call it, but never two for one object of one rule. An event
        may come again, with the same id. If its rule has a group, event.items has all changes, and
        the answer is for all of them; event itself is the newest."""
        if event.event not in ("added", "updated", "deleted", "synced"):
            raise Reject(f"a kind of change that this version does not know: {event.event[:40]}")
        lines = ""
        for change in event.items or [event]:  # the changes of a group, or the only one
            line = {"id": change.id, "attempt": event.attempt, "event": change.event, "namespace": change.namespace,
                    "name": change.name, "data": json.loads(change.payload or change.object or b"null")}
            if self.index:  # for a node, for example, the pods on it
                related = self.cache.by_index(self.source, self.index, change.name)
                line["related"] = [o["metadata"]["name"] for o in related]
            lines += json.dumps(line) + "\n"
        text = lines.encode()
        try:
            if os.write(self.file, text) < len(text):
                raise OSError("not all of it could be written")
        except OSError as e:  # perhaps the disk is full
            raise Retry(str(e), after=10) from e
        log("debug", "written")
        if not self.tell or event.event == "synced":
            return []
        target = pb.Target(resource=event.resource, namespace=event.namespace, name=event.name)
        return [pb.Action(event=pb.EmitEvent(target=target, reason="Noted", message="It was written to the diary."))]

    def health(self):
        """Returns a problem for the operator, or "". informd calls it every ten seconds."""
        return "the file was removed" if os.fstat(self.file).st_nlink == 0 else ""

    def drain(self):
        """Flushes what the handler holds back. No more events follow."""
        os.fsync(self.file)


# An object may be larger than gRPC's default limit of 4 MiB.
LARGE = [("grpc.max_receive_message_length", 64 << 20)]


class Cache:
    """Reads informd's cache: the sources that the manifest's access.read names. cache.proto has
    more calls of this form."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, LARGE) if address else None

    def by_index(self, source, index, value):
        """Returns the objects that an index of a source holds under a value."""
        call = self.channel.unary_stream("/informd.handler.v1.Cache/ByIndex",
                                         cache_pb2.ByIndexRequest.SerializeToString, cache_pb2.ObjectPage.FromString)
        try:
            pages = call(cache_pb2.ByIndexRequest(source=source, index=index, value=value), timeout=5)
            return [json.loads(o) for page in pages for o in page.objects]
        except grpc.RpcError as e:  # perhaps the source has not synced yet
            raise Retry(f"read the cache: {e.details()}") from e


LEVELS = ["debug", "info", "warn", "error"]
LEAST = LEVELS.index(os.environ.get("INFORMD_LOG_LEVEL", "info"))


about = threading.local()  # what a thread is at work on; its lines carry that


def log(level, message, **attributes):
    if LEVELS.index(level) < LEAST:  # informd would not show it
        return
    line = {"@level": level, "@message": message, **getattr(about, "event", {}), **attributes}
    sys.stderr.write(json.dumps(line) + "\n")  # one write, so that threads do not mix their lines


class Server:
    """The services that informd calls, for one handler."""

    def __init__(self, handler):
        self.handler = handler
        self.drained = False
        self.stop = threading.Event()
        self.pool = futures.ThreadPoolExecutor(handler.threads)
        self.lock = threading.Lock()
        self.busy = set()  # objects with an event at work

    def describe(self, request, context):
        return pb.DescribeResponse(name=self.handler.name, version=self.handler.version,
                                   concurrency=self.handler.threads)

    def configure(self, request, context):
        config = json.loads(request.config or b"{}")
        problems = self.handler.configure(config) if isinstance(config, dict) else [([], "want fields")]
        return pb.ConfigureResponse(problems=[pb.Problem(path=path, message=text) for path, text in problems])

    def health(self, request, context):
        return pb.HealthResponse(problem=self.handler.health())

    def drain(self, request, context):
        self.handler.drain()
        self.drained = True
        return pb.DrainResponse()

    def deliver(self, requests, context):
        answers = SimpleQueue()  # holds no more than are in flight
        threading.Thread(target=self.receive, args=(requests, answers), daemon=True).start()
        while answer := answers.get():
            batch = [answer]
            while len(batch) < 32 and sum(a.ByteSize() for a in batch) < 1 << 20 and not answers.empty() and (
                    answer := answers.get()):
                batch.append(answer)
            yield pb.DeliverResponse(answers=batch)
            if not answer:
                return

    def receive(self, requests, answers):
        working = set()
        try:
            for request in requests:  # ignores request.cancel: handle is short
                for event in request.events:
                    work = self.pool.submit(lambda event=event: answers.put(self.answer(event)))
                    working.add(work)
                    work.add_done_callback(working.discard)
        except grpc.RpcError:  # informd is gone
            pass
        futures.wait(list(working))
        answers.put(None)

    def answer(self, event):
        key = (event.rule, event.namespace, event.name)
        with self.lock:
            if key in self.busy:  # an event timed out and came again
                return pb.Answer(seq=event.seq, retry=pb.Retry(reason="still at work on this object"))
            self.busy.add(key)
        about.event = {"rule": event.rule, "key": "/".join(filter(None, key[1:])), "id": event.id}
        try:
            return pb.Answer(seq=event.seq, done=pb.Done(actions=self.handler.handle(event)))
        except Reject as e:
            return pb.Answer(seq=event.seq, reject=pb.Reject(reason=str(e)))
        except Retry as e:
            answer = pb.Answer(seq=event.seq, retry=pb.Retry(reason=str(e)))
            answer.retry.after.FromSeconds(e.after)
            return answer
        except BaseException as e:  # a bug, or sys.exit, which ends no thread
            log("error", "handle failed", error=traceback.format_exc())
            return pb.Answer(seq=event.seq, retry=pb.Retry(reason=f"{type(e).__name__}: {e}"))
        finally:
            about.event = {}
            with self.lock:
                self.busy.discard(key)

    def shutdown(self, request, context):
        self.stop.set()
        return b""

    def services(self):
        def unary(method, request, response):
            def call(asked, context):
                try:
                    return method(asked, context)
                except Exception:  # a bug; informd learns that the call failed, and not where
                    log("error", f"{method.__name__} failed", error=traceback.format_exc())
                    raise
            return grpc.unary_unary_rpc_method_handler(call, request.FromString, response.SerializeToString)

        return [grpc.method_handlers_generic_handler(service, methods) for service, methods in {
            "informd.handler.v1.Handler": {
                "Describe": unary(self.describe, pb.DescribeRequest, pb.DescribeResponse),
                "Configure": unary(self.configure, pb.ConfigureRequest, pb.ConfigureResponse),
                "Health": unary(self.health, pb.HealthRequest, pb.HealthResponse),
                "Drain": unary(self.drain, pb.DrainRequest, pb.DrainResponse),
                "Deliver": grpc.stream_stream_rpc_method_handler(
                    self.deliver, pb.DeliverRequest.FromString, pb.DeliverResponse.SerializeToString),
            },
            # Two encoded messages: a HealthCheckResponse with status SERVING, and an Empty.
            "grpc.health.v1.Health": {"Check": grpc.unary_unary_rpc_method_handler(lambda *_: b"\x08\x01")},
            "plugin.GRPCController": {"Shutdown": grpc.unary_unary_rpc_method_handler(self.shutdown)},
        }.items()]

    def run(self):
        server = grpc.server(futures.ThreadPoolExecutor(4), handlers=self.services(), options=LARGE)
        # Other hosts than informd may leave the directory to the handler.
        socket = os.path.join(os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or tempfile.mkdtemp(), "handler")
        server.add_insecure_port("unix:" + socket)
        server.start()
        print(f"1|1|unix|{socket}|grpc|", flush=True)  # the handshake
        if stat.S_ISFIFO(os.fstat(sys.stdin.fileno()).st_mode):  # from other hosts it may be anything
            threading.Thread(target=self.await_host, daemon=True).start()
        self.stop.wait()
        server.stop(grace=1).wait()
        os._exit(0)  # even if handle still runs: informd has given up on it

    def await_host(self):
        sys.stdin.buffer.read()  # ends when informd stops this process, or is gone
        self.stop.set()


def main():
    if os.environ.get("INFORMD_HANDLER_COOKIE") != "3b1c2f3c0c5e4f0f9a57c1e2d0a2f7c1":
        sys.exit("diary is a handler: informd starts it, for a Handler manifest with its path under spec.command")
    sys.stdout.reconfigure(line_buffering=True)  # print reaches informd's log at once
    server = Server(Diary())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # informd decides when a handler ends
    signal.signal(signal.SIGTERM, lambda *_: server.stop.set() if server.drained else None)
    server.run()


if __name__ == "__main__":
    main()
