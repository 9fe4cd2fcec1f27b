package confine

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What handlers in these languages do as a matter of course: temporary files, threads, child
// processes, and a server on a socket, which sends back the first line that it gets.
const (
	pythonServer = `
import asyncio, os, ssl, subprocess, sys, tempfile, threading
with tempfile.TemporaryDirectory() as d, open(os.path.join(d, "f"), "w") as f:
    f.write("x")
t = threading.Thread(target=subprocess.check_call, args=(["/bin/true"],))
t.start(); t.join()
ssl.create_default_context()
open("/dev/null", "w").close()
async def serve(r, w):
    w.write(await r.readline()); await w.drain(); w.close(); done.set()
async def main():
    global done
    done = asyncio.Event()
    async with await asyncio.start_unix_server(serve, sys.argv[1]):
        print("ready", flush=True)
        await done.wait()
asyncio.run(main())
`
	nodeServer = `
const fs = require("fs"), os = require("os"), path = require("path")
const dir = fs.mkdtempSync(path.join(os.tmpdir(), "x"))
fs.writeFileSync(path.join(dir, "f"), "x")
fs.rmSync(dir, {recursive: true})
require("child_process").execFileSync("/bin/true")
const server = require("net").createServer(c => c.once("data", d => { c.end(d); server.close() }))
new (require("worker_threads").Worker)("1", {eval: true}).on("exit", () =>
  server.listen(process.argv[1], () => console.log("ready")))
`
)

func TestRuntimes(t *testing.T) {
	for _, runtime := range []struct{ path, flag, server string }{
		{"/usr/bin/python3", "-c", pythonServer},
		{"/usr/bin/node", "-e", nodeServer},
	} {
		for name, s := range map[string]Spec{
			"no network":         {Sandbox: true},
			"ports":              {Sandbox: true, Network: Network{Ports: []uint16{443, 53}}},
			"limited":            {Sandbox: true, Limits: Limits{Memory: 1 << 30, Files: 64}},
			"another user":       {Sandbox: true, User: "64996:64996", Limits: Limits{Processes: 64}},
			"user without limit": {User: "64996:64996"},
		} {
			t.Run(filepath.Base(runtime.path)+" "+name, func(t *testing.T) {
				if _, err := os.Stat(runtime.path); err != nil {
					t.Skip(err)
				}
				own := folder(t)
				c := prepare(t, s, Own{Write: []string{own}})
				socket := filepath.Join(own, "s")
				cmd := command(t, c, []string{"TMPDIR=" + own, "PATH=/usr/bin:/bin", "HOME=" + own}, runtime.path, runtime.flag, runtime.server, socket)
				var stderr strings.Builder
				cmd.Stderr = &stderr
				stdout, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
					_ = cmd.Wait()
					t.Fatalf("%q, %v: %s", line, err, stderr.String())
				}
				conn, err := net.Dial("unix", socket)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, "hello\n"); err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(conn); string(got) != "hello\n" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
				_ = conn.Close() // node waits for that
				if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
					t.Errorf("%v: %s", err, stderr.String())
				}
			})
		}
	}
}

// A program that is executed by an open file, as one is whose digest was checked: here a script,
// which its interpreter opens once more.
func TestExecuteDescriptor(t *testing.T) {
	dir := folder(t)
	path := filepath.Join(dir, "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho it runs\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	cmd := command(t, prepare(t, Spec{Sandbox: true}, Own{Read: []string{path}}), nil, "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{script}
	if got := output(t, cmd); got != "it runs\n" {
		t.Errorf("%q", got)
	}
}
