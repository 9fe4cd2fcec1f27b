package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

// puppetCommand, as the first argument, makes the test binary a handler that does what the data of
// ConfigMaps say. Before it answers, it records each event in the file "told" of the folder that the
// second argument names. The keys of the data are:
//
//   - actions: its answer, a JSON list of handler.Action. The target is the event's object, unless
//     an action names another. ${KEY} stands for a value of the data, or else for the content of
//     the file KEY in the folder.
//   - hold: it answers once the folder has a file named like the object.
//   - until: it answers without actions once turn has this value.
//   - finalizer: it answers without actions if the object has that finalizer.
//
// It answers a deletion without actions.
const puppetCommand = "puppet"

type puppet struct{ dir string }

// cue is an event as the puppet recorded it.
type cue struct {
	Rule, Event, Name, Version string
	Attempt                    int
	Data                       map[string]string
}

func (p puppet) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	var o struct {
		Metadata struct{ Finalizers []string }
		Data     map[string]string
	}
	if err := json.Unmarshal(ev.Object, &o); err != nil {
		return handler.Answer{}, handler.Reject(err)
	}
	line, err := json.Marshal(cue{ev.Rule, ev.Event, ev.Name, ev.ResourceVersion, ev.Attempt, o.Data})
	if err == nil {
		err = appendTo(filepath.Join(p.dir, "told"), append(line, '\n'))
	}
	if err == nil && o.Data["hold"] != "" {
		err = awaitFile(ctx, filepath.Join(p.dir, ev.Name))
	}
	until := o.Data["until"]
	if err != nil || ev.Event == handler.Deleted || until != "" && until == o.Data["turn"] ||
		slices.Contains(o.Metadata.Finalizers, o.Data["finalizer"]) {
		return handler.Answer{}, err
	}
	actions, err := p.actionsOf(ev, o.Data)
	return handler.Answer{Actions: actions}, err
}

func (p puppet) actionsOf(ev handler.Event, data map[string]string) ([]handler.Action, error) {
	text := os.Expand(data["actions"], func(key string) string {
		if value, ok := data[key]; ok {
			return value
		}
		content, _ := os.ReadFile(filepath.Join(p.dir, key)) // then there is nothing
		return string(content)
	})
	if text == "" {
		return nil, nil
	}
	var actions []handler.Action
	if err := json.Unmarshal([]byte(text), &actions); err != nil {
		return nil, handler.Reject(fmt.Errorf("%w in %s", err, text))
	}
	for i := range actions {
		if a := &actions[i]; a.Name == "" {
			a.Resource, a.Namespace, a.Name = ev.Resource, ev.Namespace, ev.Name
		} else {
			a.Namespace = ev.Namespace
		}
	}
	return actions, nil
}

func appendTo(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(text)
	return err
}

func awaitFile(ctx context.Context, path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// theater is the folder of one puppet.
type theater struct {
	t   testing.TB
	dir string
}

func newTheater(t testing.TB) theater { return theater{t, t.TempDir()} }

// puppet returns the handler's manifest. spec holds further fields of its spec.
func (p theater) puppet(spec string) string {
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	return harness.Handler("puppet", fmt.Sprintf("command: [%q, %s, %q], retry: {backoff: 20ms, maxBackoff: 200ms}, %s", self, puppetCommand, p.dir, spec))
}

// told returns the events that the puppet got so far, of one object or, without a name, of all.
func (p theater) told(name string) (all []cue) {
	p.t.Helper()
	for _, line := range harness.LinesOf(p.t, p.dir, "told") {
		var what cue
		if err := json.Unmarshal([]byte(line), &what); err != nil {
			p.t.Fatalf("%v: %q", err, line)
		}
		if name == "" || what.Name == name {
			all = append(all, what)
		}
	}
	return all
}

// release lets the puppet answer the event that it holds.
func (p theater) release(name string) { harness.Touch(p.t, p.dir, name) }

// scripted returns the manifest of a ConfigMap that tells the puppet what to do. actions is JSON
// without single quotes; data is more data.
func scripted(name, actions, data string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NS, name: ` + name + `}, data: {` +
		strings.TrimSuffix(`actions: '`+actions+`', `+data, ", ") + `}}`
}

func servePuppet(dir string) { serve.Main(puppet{dir}) }
