package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/informd/informd/plugins/host/confine"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"informd": main})
}

// The scripts are the command line as its users meet it. None needs a cluster. Beside testscript's
// own commands there are these:
//
//	code N informd …       run informd and want that exit code
//	random FILE SIZE       fill a file with random bytes, the same each time
//	repeat FILE N TEXT     put TEXT into FILE where it says @@, N times
//	lines N FILE           FILE has so many lines
//	longest N FILE         no line of FILE is longer than N bytes
//
// With UPDATE_SCRIPTS set, the scripts' expected outputs are rewritten.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			endAtOnce(env)
			examples, err := filepath.Abs("../../examples/rules")
			env.Setenv("EXAMPLES", examples)
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code":    wantCode,
			"random":  writeRandom,
			"repeat":  repeatText,
			"lines":   countLines,
			"longest": longestLine,
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Getuid() == 0, nil
			case "sandbox": // what this machine can enforce
				_, err := confine.Prepare(confine.Spec{Sandbox: true}, "test", confine.Own{})
				return err == nil, nil
			}
			return false, fmt.Errorf("no such condition: %s", name)
		},
	})
}

// endAtOnce keeps a command that was built with the race detector from sleeping for a second before
// it exits. A race still makes it fail.
func endAtOnce(env *testscript.Env) { env.Setenv("GORACE", "atexit_sleep_ms=0") }

func wantCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N informd ARG…")
	}
	want := number(ts, args[0])
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func writeRandom(ts *testscript.TestScript, _ bool, args []string) {
	seed := [32]byte{1}
	b := make([]byte, number(ts, args[1]))
	_, _ = rand.NewChaCha8(seed).Read(b) // never fails
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o600))
}

func repeatText(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	b = bytes.Replace(b, []byte("@@"), []byte(strings.Repeat(args[2], number(ts, args[1]))), 1)
	ts.Check(os.WriteFile(path, b, 0o600))
}

func countLines(ts *testscript.TestScript, _ bool, args []string) {
	if got, want := strings.Count(ts.ReadFile(args[1]), "\n"), number(ts, args[0]); got != want {
		ts.Fatalf("%s has %d lines, want %d", args[1], got, want)
	}
}

func longestLine(ts *testscript.TestScript, _ bool, args []string) {
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		if limit := number(ts, args[0]); len(line) > limit {
			ts.Fatalf("%s has a line of %d bytes, more than %d", args[1], len(line), limit)
		}
	}
}

func number(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}
