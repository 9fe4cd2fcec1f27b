#!/usr/bin/python3
"""diary, an informd handler in Python: it appends a line of JSON for each change to the file that its config names. As far
as the config asks for it, the line has what informd's cache has of related objects, and an Event tells of it in the cluster.

It needs grpcio and protobuf, and beside it handler_pb2.py and cache_pb2.py, made of informd's handler.proto and
cache.proto; README.md says how. Yours begins at Diary: configure, handle, health and drain. What is below speaks the
protocol, and need not change.
"""

import json
import os
import signal
import sys
import threading
import traceback
from concurrent import futures
from queue import SimpleQueue

import grpc

import cache_pb2
import handler_pb2 as pb


class Retry(Exception):
    """Raised by handle: send the event again, not sooner than after so many seconds (0: informd decides)."""

    def __init__(self, reason, after=0):
        super().__init__(reason)
        self.after = after


class Reject(Exception):
    """Raised by handle: the event can never be handled. It becomes a dead letter."""


class Diary:
    name, version, concurrency = "diary", "1.0", 8

    def __init__(self):
        self.cache = Cache(os.environ.get("INFORMD_CACHE_SOCKET"))
        self.file, self.source, self.index, self.tell = None, "", "", False

    def configure(self, config):
        """Returns what is wrong with the config, as (path, message)."""
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
        """Handles one pb.Event and returns actions, pb.Action, that informd is to take in the cluster. It runs in
        several threads, never two for one object of one rule. An event may come again, with the same id."""
        if event.event not in ("added", "updated", "deleted", "synced"):
            raise Reject(f"a kind of change that this version does not know: {event.event[:40]}")
        line = {"id": event.id, "attempt": event.attempt, "event": event.event, "namespace": event.namespace,
                "name": event.name, "data": json.loads(event.payload or event.object or b"null")}
        if self.index:  # of nodes, for instance, the pods on them
            related = self.cache.by_index(self.source, self.index, event.name)
            line["related"] = [o["metadata"]["name"] for o in related]
        try:
            os.write(self.file, json.dumps(line).encode() + b"\n")
        except OSError as e:  # the disk is full, perhaps
            raise Retry(str(e), after=10) from e
        log("debug", "written", namespace=event.namespace, name=event.name)
        if not self.tell or event.event == "synced":
            return []
        about = pb.Target(resource=event.resource, namespace=event.namespace, name=event.name)
        return [pb.Action(event=pb.EmitEvent(target=about, reason="Noted", message="It was written to the diary."))]

    def health(self):
        """Returns what is wrong, for the operator, or nothing. It is asked every ten seconds."""
        return "the file was removed" if os.fstat(self.file).st_nlink == 0 else ""

    def drain(self):
        """Lets go of what is held back: no event follows."""
        os.fsync(self.file)


LARGE = [("grpc.max_receive_message_length", 64 << 20)]  # an object may be larger than the 4 MiB that are the default


class Cache:
    """Reads informd's cache, as far as the manifest's access.read goes. cache.proto has more calls, of the same form."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, LARGE) if address else None

    def by_index(self, source, index, value):
        """Returns the objects that an index of a source has under a value."""
        call = self.channel.unary_stream("/informd.handler.v1.Cache/ByIndex",
                                         cache_pb2.ByIndexRequest.SerializeToString, cache_pb2.ObjectPage.FromString)
        try:
            pages = call(cache_pb2.ByIndexRequest(source=source, index=index, value=value), timeout=5)
            return [json.loads(o) for page in pages for o in page.objects]
        except grpc.RpcError as e:  # the source is not there yet, perhaps, or access.read does not name it
            raise Retry(f"read the cache: {e.details()}") from e


LEVELS = ["debug", "info", "warn", "error"]
LEAST = LEVELS.index(os.environ.get("INFORMD_LOG_LEVEL", "info"))


def log(level, message, **attributes):
    if LEVELS.index(level) < LEAST:  # informd would not show it
        return
    line = {"@level": level, "@message": message, **attributes}
    sys.stderr.write(json.dumps(line) + "\n")  # one write, so that threads do not mix their lines


class Server:
    """The services that informd calls, for one handler."""

    def __init__(self, handler):
        self.handler = handler
        self.drained = False
        self.stop = threading.Event()
        self.pool = futures.ThreadPoolExecutor(handler.concurrency)
        self.lock = threading.Lock()
        self.busy = set()  # objects that are being worked on

    def describe(self, request, context):
        return pb.DescribeResponse(name=self.handler.name, version=self.handler.version,
                                   concurrency=self.handler.concurrency)

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
            for request in requests:  # request.cancel is not heeded: handle takes no time worth stopping
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
            if key in self.busy:  # past its time limit an event comes again, while handle still has it
                return pb.Answer(seq=event.seq, retry=pb.Retry(reason="still at work on this object"))
            self.busy.add(key)
        try:
            return pb.Answer(seq=event.seq, done=pb.Done(actions=self.handler.handle(event)))
        except Reject as e:
            return pb.Answer(seq=event.seq, reject=pb.Reject(reason=str(e)))
        except Retry as e:
            answer = pb.Answer(seq=event.seq, retry=pb.Retry(reason=str(e)))
            answer.retry.after.FromSeconds(e.after)
            return answer
        except BaseException as e:  # what nobody thought of, sys.exit included: in a thread it ends nothing
            log("error", "handle failed", error=traceback.format_exc())
            return pb.Answer(seq=event.seq, retry=pb.Retry(reason=f"{type(e).__name__}: {e}"))
        finally:
            with self.lock:
                self.busy.discard(key)

    def shutdown(self, request, context):
        self.stop.set()
        return b""

    def services(self):
        def unary(method, request, response):
            return grpc.unary_unary_rpc_method_handler(method, request.FromString, response.SerializeToString)

        return [grpc.method_handlers_generic_handler(service, methods) for service, methods in {
            "informd.handler.v1.Handler": {
                "Describe": unary(self.describe, pb.DescribeRequest, pb.DescribeResponse),
                "Configure": unary(self.configure, pb.ConfigureRequest, pb.ConfigureResponse),
                "Health": unary(self.health, pb.HealthRequest, pb.HealthResponse),
                "Drain": unary(self.drain, pb.DrainRequest, pb.DrainResponse),
                "Deliver": grpc.stream_stream_rpc_method_handler(
                    self.deliver, pb.DeliverRequest.FromString, pb.DeliverResponse.SerializeToString),
            },
            # These two in bytes: a HealthCheckResponse whose field 1, status, is 1, SERVING; and an Empty.
            "grpc.health.v1.Health": {"Check": grpc.unary_unary_rpc_method_handler(lambda *_: b"\x08\x01")},
            "plugin.GRPCController": {"Shutdown": grpc.unary_unary_rpc_method_handler(self.shutdown)},
        }.items()]

    def run(self):
        server = grpc.server(futures.ThreadPoolExecutor(4), handlers=self.services(), options=LARGE)
        socket = os.path.join(os.environ["PLUGIN_UNIX_SOCKET_DIR"], "handler")
        server.add_insecure_port("unix:" + socket)
        server.start()
        print(f"1|1|unix|{socket}|grpc|", flush=True)  # the handshake
        threading.Thread(target=self.await_host, daemon=True).start()
        self.stop.wait()
        server.stop(grace=1).wait()
        os._exit(0)  # whatever handle may still be at: informd has given up on it

    def await_host(self):
        sys.stdin.buffer.read()  # nothing comes; it ends when informd wants this process to exit, or is gone
        self.stop.set()


def main():
    if os.environ.get("INFORMD_HANDLER_COOKIE") != "3b1c2f3c0c5e4f0f9a57c1e2d0a2f7c1":
        sys.exit("diary is a handler: informd starts it, for a Handler manifest with its path under spec.command")
    server = Server(Diary())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # informd decides when a handler ends
    signal.signal(signal.SIGTERM, lambda *_: server.stop.set() if server.drained else None)
    server.run()


if __name__ == "__main__":
    main()
