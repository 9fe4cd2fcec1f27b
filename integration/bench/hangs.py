"""The example's handler in Python, except that it asks the benchmark about each event, and waits for
the answer. Its config names the benchmark's socket."""

import socket
import threading

import diary

SENT = b'load.informd.dev/sent":"'


class Hangs(diary.Diary):
    def configure(self, config):
        self.path, self.own = config["socket"], threading.local()
        return []

    def handle(self, event):
        if not hasattr(self.own, "asked"):  # a connection for each thread
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self.path)
            self.own.asked = connection.makefile("rwb")
        sent = event.object.index(SENT)
        end = event.object.index(b'"', sent + len(SENT)) + 1
        asked = self.own.asked
        asked.write(f"{event.namespace}/{event.name} ".encode() + event.object[sent:end] + b"\n")
        asked.flush()
        if not asked.readline():
            raise diary.Retry("it hung")
        return []

    def health(self):
        return ""

    def drain(self):
        pass


diary.Diary = Hangs
diary.main()
