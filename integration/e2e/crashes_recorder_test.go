package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/informd/informd/integration/ledger"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

const (
	// recorderCommand, as the first argument, makes the test binary a handler that writes a ledger
	// to the file that the second argument names: a line per event, with one write, before it
	// acknowledges.
	recorderCommand = "recorder"
	// runVariable tells the recorder which run of the daemon it belongs to.
	runVariable = "INFORMD_TEST_RUN"
)

// recorder is that handler.
type recorder struct {
	run  int
	file *os.File
}

func serveRecorder(path string) {
	run, err := strconv.Atoi(os.Getenv(runVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = file.WriteString("\n") // the process before may have been killed within a line
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	serve.Main(&recorder{run: run, file: file})
}

func (r *recorder) Handle(_ context.Context, ev handler.Event) (handler.Answer, error) {
	line := ledger.Event{
		Run: r.run, Process: os.Getpid(), Rule: ev.Rule, ID: ev.ID, Kind: ev.Event, Attempt: ev.Attempt, UID: ev.UID,
		Key: ledger.Key{Resource: ev.Resource.Resource, Name: ev.Name},
	}
	var err error
	if line.Version, err = strconv.ParseInt(ev.ResourceVersion, 10, 64); err != nil {
		return handler.Answer{}, handler.Reject(err)
	}
	if line.Object, err = seen(ev.Object); err != nil {
		return handler.Answer{}, handler.Reject(err)
	}
	if line.Old, err = seen(ev.Old); err != nil {
		return handler.Answer{}, handler.Reject(err)
	}
	line.At = time.Now()
	text, err := json.Marshal(line)
	if err != nil {
		return handler.Answer{}, handler.Reject(err)
	}
	_, err = r.file.Write(append(text, '\n'))
	return handler.Answer{}, err
}

func seen(object json.RawMessage) (*ledger.Seen, error) {
	if len(object) == 0 {
		return nil, nil
	}
	look, _, _, err := ledger.Look(object)
	return &look, err
}

// recorded is the part of the recorder's ledger that the test has read.
type recorded struct {
	path   string
	offset int64
	cut    []byte // the beginning of a line that is not complete yet
	events []ledger.Event
	torn   int
	newest map[string]map[ledger.Key]int64 // the highest resourceVersion, by rule and object
}

func newRecorded(path string) *recorded {
	return &recorded{path: path, newest: make(map[string]map[ledger.Key]int64)}
}

// read reads what was added since the last time.
func (r *recorded) read(t testing.TB) {
	t.Helper()
	file, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return // no handler has started yet
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Seek(r.offset, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	added, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	r.offset += int64(len(added))
	text := append(r.cut, added...)
	for {
		line, rest, found := bytes.Cut(text, []byte("\n"))
		if !found {
			break
		}
		if text = rest; len(line) > 0 {
			r.add(line)
		}
	}
	r.cut = bytes.Clone(text)
}

func (r *recorded) add(line []byte) {
	var ev ledger.Event
	if json.Unmarshal(line, &ev) != nil {
		r.torn++
		return
	}
	r.events = append(r.events, ev)
	if r.newest[ev.Rule] == nil {
		r.newest[ev.Rule] = make(map[ledger.Key]int64)
	}
	r.newest[ev.Rule][ev.Key] = max(r.newest[ev.Rule][ev.Key], ev.Version)
}
