package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest"
)

// writer writes the last object that it was given to the file that its config names. Its answer has
// an Event on the object, if it may read the cache.
type writer struct {
	file  string
	cache handler.Cache
}

func (w *writer) UseCache(c handler.Cache) { w.cache = c }

func (w *writer) Configure(_ context.Context, config json.RawMessage) error {
	var fields map[string]string
	if err := json.Unmarshal(config, &fields); err != nil {
		return err
	}
	if w.file = fields["file"]; w.file == "" || len(fields) != 1 {
		return errors.New("file is required, and nothing else is known")
	}
	return nil
}

func (w *writer) Handle(ctx context.Context, ev handler.Event) (handler.Answer, error) {
	if err := os.WriteFile(w.file, ev.Object, 0o600); err != nil {
		return handler.Answer{}, err
	}
	if w.cache == nil {
		return handler.Answer{}, nil
	}
	if err := w.look(ctx); err != nil {
		return handler.Answer{}, err
	}
	return handler.Answer{Actions: []handler.Action{ev.Target().Event("Written", "It is.")}}, nil
}

// look reads all there is in each way.
func (w *writer) look(ctx context.Context) error {
	want := func(what string, got, want any, err error) error {
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = handler.Reject(fmt.Errorf("%s: got %v, want %v", what, got, want))
		}
		return err
	}
	one, found, err := w.cache.Get(ctx, "pods", "a", "web")
	if err := want("Get", string(one), pods[1], err); err != nil || !found {
		return err
	}
	both, err := w.cache.GetMany(ctx, "pods", "b/db", "a/none", "a/web")
	if err := want("GetMany", texts(both), []string{pods[0], "", pods[1]}, err); err != nil {
		return err
	}
	var listed []json.RawMessage
	for o, err := range w.cache.List(ctx, "pods", handler.ListOptions{Selector: "tier in (web)"}) {
		if err != nil {
			return err
		}
		listed = append(listed, o)
	}
	if err := want("List", texts(listed), pods[1:2], nil); err != nil {
		return err
	}
	on, err := w.cache.ByIndex(ctx, "pods", "byNode", "north")
	if err := want("ByIndex", texts(on), []string{pods[1], pods[0]}, err); err != nil {
		return err
	}
	keys, err := w.cache.IndexKeys(ctx, "pods", "byNode", "south")
	if err := want("IndexKeys", keys, []string{"b/db"}, err); err != nil {
		return err
	}
	values, err := w.cache.IndexValues(ctx, "pods", "byNode")
	if err := want("IndexValues", values, []string{"north", "south"}, err); err != nil {
		return err
	}
	nodes := 0
	for _, err := range w.cache.List(ctx, "nodes", handler.ListOptions{}) {
		if err != nil {
			return err
		}
		nodes++
	}
	return want("List", nodes, 1, nil)
}

func texts(all []json.RawMessage) (out []string) {
	for _, o := range all {
		out = append(out, string(o))
	}
	return out
}

var pods = []string{
	`{"metadata":{"namespace":"b","name":"db"},"nodes":["south","north","north"]}`,
	`{"metadata":{"namespace":"a","name":"web","labels":{"tier":"web"}},"nodes":["north"]}`,
}

var madeUp = map[string]handlertest.Source{
	"pods": {
		Objects: []json.RawMessage{json.RawMessage(pods[0]), json.RawMessage(pods[1])},
		Indexes: map[string]func(json.RawMessage) []string{"byNode": func(o json.RawMessage) []string {
			var pod struct{ Nodes []string }
			_ = json.Unmarshal(o, &pod) // then it is on none
			return pod.Nodes
		}},
	},
	"nodes": {Objects: []json.RawMessage{json.RawMessage(`{"metadata":{"name":"north"}}`)}},
}

func TestSuite(t *testing.T) {
	file := t.TempDir() + "/out"
	config, err := json.Marshal(map[string]string{"file": file})
	if err != nil {
		t.Fatal(err)
	}
	handlertest.Run(t, handlertest.Options{
		Command: []string{os.Args[0]},
		Env:     []string{"HANDLER=1", "GORACE=atexit_sleep_ms=0 halt_on_error=1"},
		Config:  config,
		Cache:   madeUp,
		Integers: func(ev handler.Event) error {
			got, err := os.ReadFile(file)
			if err == nil && string(got) != string(ev.Object) {
				err = fmt.Errorf("got %s", got)
			}
			return err
		},
	})
}
