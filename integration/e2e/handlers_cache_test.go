package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/informd/informd/integration/cluster"
	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

// librarianCommand, as the first argument, makes the test binary a handler that reads the cache at
// each event. It writes what it found to the file that the second argument names, a line of JSON
// per event.
const librarianCommand = "librarian"

type librarian struct {
	path  string
	cache handler.Cache
}

func serveLibrarian(path string) { serve.Main(&librarian{path: path}) }

func (l *librarian) UseCache(c handler.Cache) { l.cache = c }

// reading is what the librarian found at an event.
type reading struct {
	Event, Name string
	Version     int64 // of the event
	Read        int64 // of the same object in the cache; 0: it is gone
	ByIndex     []string
	Keys        []string
	Values      []string
	Secrets     string // why these cannot be read
	Gadgets     string // likewise
	Unknown     string // likewise
}

func (l *librarian) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	source := "configmaps"
	if ev.Resource.Resource == "widgets" {
		source = "widgets"
	}
	out := reading{Event: ev.Event, Name: ev.Name}
	object, found, err := l.cache.Get(ctx, source, ev.Namespace, ev.Name)
	if err != nil {
		return handler.Answer{}, err
	}
	if found {
		out.Read = versionIn(object)
	}
	if out.Version, err = strconv.ParseInt(ev.ResourceVersion, 10, 64); err != nil {
		return handler.Answer{}, handler.Reject(err)
	}
	if source == "configmaps" {
		if err := l.look(ctx, &out); err != nil {
			return handler.Answer{}, err
		}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return handler.Answer{}, err
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return handler.Answer{}, err
	}
	_, err = f.Write(append(text, '\n'))
	return handler.Answer{}, errors.Join(err, f.Close())
}

func (l *librarian) look(ctx context.Context, out *reading) error {
	reds, err := l.cache.ByIndex(ctx, "configmaps", "byTeam", "red")
	if err != nil {
		return err
	}
	for _, object := range reds {
		out.ByIndex = append(out.ByIndex, nameIn(object))
	}
	if out.Keys, err = l.cache.IndexKeys(ctx, "configmaps", "byTeam", "red"); err != nil {
		return err
	}
	if out.Values, err = l.cache.IndexValues(ctx, "configmaps", "byTeam"); err != nil {
		return err
	}
	listed := 0
	for _, err := range l.cache.List(ctx, "configmaps", handler.ListOptions{Selector: "!none"}) {
		if err != nil {
			return err
		}
		listed++
	}
	if many, err := l.cache.GetMany(ctx, "configmaps", out.Keys...); err != nil || len(many) != len(reds) && listed < len(reds) {
		return fmt.Errorf("%d of %d: %w", len(many), listed, err)
	}
	_, _, err = l.cache.Get(ctx, "secrets", "", "x")
	out.Secrets = fmt.Sprint(errors.Is(err, handler.ErrDenied), " ", err)
	_, _, err = l.cache.Get(ctx, "gadgets", "", "x")
	out.Gadgets = fmt.Sprint(err)
	_, _, err = l.cache.Get(ctx, "configmap", "", "x")
	out.Unknown = fmt.Sprint(errors.Is(err, handler.ErrUnknown), " ", err)
	return nil
}

func nameIn(object json.RawMessage) string {
	var o struct{ Metadata struct{ Name string } }
	_ = json.Unmarshal(object, &o) // then there is no name
	return o.Metadata.Name
}

func versionIn(object json.RawMessage) int64 {
	var o struct {
		Metadata struct {
			ResourceVersion int64 `json:",string"`
		}
	}
	_ = json.Unmarshal(object, &o) // then there is no version
	return o.Metadata.ResourceVersion
}

// readings returns what a librarian has written so far.
func readings(t testing.TB, path string) (out []reading) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r reading
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, r)
	}
	return out
}

// A handler reads from the daemon's cache the sources that its manifest names, and nothing else.
func TestHandlersReadTheCache(t *testing.T) {
	t.Parallel()
	k := harness.NewKube(t, cluster.Shared(t))
	for _, name := range []string{"a", "b"} {
		k.Create(harness.ConfigMap(name, "{team: red}"))
	}
	k.Create(harness.ConfigMap("c", "{team: blue}"))
	path := harness.WriteFile(t, "found", "")
	d := harness.RunInformd(t, cluster.Shared(t).Kubeconfig(), k.Text(
		harness.Source("configmaps", harness.ConfigMaps+", indexes: {byTeam: object.data.team}")+
			harness.Source("secrets", "resource: v1/secrets, namespaces: [NS]")+
			harness.Source("gadgets", "resource: informd.test/v1/gadgets")+
			harness.Handler("librarian", fmt.Sprintf("command: [%s, %s, %s], access: {read: [configmaps, gadgets]}", os.Args[0], librarianCommand, path))+
			harness.Rule("all", "source: configmaps, handler: librarian, where: object.data.team != nil")))
	d.AwaitReady()
	k.Create(harness.ConfigMap("d", "{team: red}"))
	named := func(name string) func(reading) bool { return func(r reading) bool { return r.Name == name } }
	d.Poll("readings", func() bool { return slices.ContainsFunc(readings(t, path), named("d")) && len(readings(t, path)) >= 4 })
	d.Stop()
	all := readings(t, path)
	got := all[slices.IndexFunc(all, named("d"))]
	want := reading{
		Event: "added", Name: "d", Version: got.Version, Read: got.Version, ByIndex: []string{"a", "b", "d"},
		Keys: []string{k.Ns + "/a", k.Ns + "/b", k.Ns + "/d"}, Values: []string{"blue", "red"},
		Secrets: `true read the cache: not allowed: handler "librarian" may not read source "secrets": to allow it, add to its manifest spec: {access: {read: [configmaps, gadgets, secrets]}}`,
		Unknown: `true read the cache: unknown: there is no source "configmap"; did you mean "configmaps"?`,
	}
	gadgets := got.Gadgets
	got.Gadgets = ""
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !strings.HasPrefix(gadgets, `read the cache: source "gadgets" cannot be read now: informd.test/v1/gadgets is not served`) {
		t.Errorf("what is not served: %s", gadgets)
	}
}

// What a handler reads is never older than the event that it works on, however fast objects change.
func TestCacheIsAsFreshAsEvents(t *testing.T) {
	t.Parallel()
	s := harness.NewStage(t, "")
	s.Informd = harness.Binary
	path := harness.WriteFile(t, "found", "")
	s.Write(t, harness.SteadySpec, harness.Handler("librarian", fmt.Sprintf("command: [%s, %s, %s], access: {read: [widgets]}", os.Args[0], librarianCommand, path))+
		harness.Rule("librarian", "source: widgets, handler: librarian, delivery: every"))
	s.Open(t, nil)
	s.AwaitRunning("librarian")
	s.Play(500)
	s.Poll("updates", func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte(`"Event":"updated"`)) >= 1000
	})
	s.Rest()
	s.Stop()
	older, newer := 0, 0
	for _, r := range readings(t, path) {
		switch {
		case r.Read < r.Version:
			older++
		case r.Read > r.Version:
			newer++
		}
	}
	if older > 0 {
		t.Errorf("%d times what was read was older than the event", older)
	}
	t.Logf("%d readings, %d newer than the event", len(readings(t, path)), newer)
}
