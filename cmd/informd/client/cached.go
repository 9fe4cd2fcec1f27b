package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/cmd/informd/control"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/serve"
)

// cacheTime bounds a read of the cache, as the daemon itself does.
const cacheTime = 2 * time.Minute

// handlersCache returns the cache of the handler that started this command, unless a flag names a
// daemon.
func (f *controlFlags) handlersCache() (cache handler.Cache, ok bool) {
	if *f != (controlFlags{}) {
		return nil, false
	}
	return serve.HandlersCache()
}

// read shows objects from a handler's cache. It does what run does with the daemon's answer, with
// the handler's rights. Secrets are shown: the manifest's access.read grants them.
func (g *getFlags) read(cmd *cobra.Command, cache handler.Cache, q control.Query) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), cacheTime)
	defer cancel()
	var objects []json.RawMessage
	var rows []control.Row
	for o, err := range found(ctx, cache, q) {
		if err != nil {
			return cli.Failed(err)
		}
		row, err := rowOf(o)
		if err != nil {
			return cli.Failed(err)
		}
		if q.Namespace != "" && row.Namespace != q.Namespace ||
			q.Name != "" && row.Name != q.Name ||
			q.Selector != nil && !q.Selector.Matches(labels.Set(row.Labels)) {
			continue
		}
		objects, rows = append(objects, o), append(rows, row)
	}
	if err := g.explain(cmd, q, control.Header{State: "synced", Count: len(rows)}); err != nil {
		return cli.Failed(err)
	}
	out := cmd.OutOrStdout()
	switch {
	case g.output == "name":
		for _, row := range rows {
			fmt.Fprintln(out, cli.Printable(keyOf(row.Namespace, row.Name)))
		}
		return nil
	case g.output != "json" && g.output != "yaml":
		return showRows(out, rows, g.output == "wide", time.Now())
	case q.Name != "" && len(objects) == 1:
		return writeDocument(out, g.output, objects[0])
	}
	list := newListWriter(out, g.output)
	for _, o := range objects {
		if err := list.add(o); err != nil {
			return err
		}
	}
	return list.end()
}

// found yields at least the objects that a query asks for.
func found(
	ctx context.Context, cache handler.Cache, q control.Query,
) iter.Seq2[json.RawMessage, error] {
	var objects []json.RawMessage
	var err error
	switch {
	case q.Index != "":
		objects, err = cache.ByIndex(ctx, q.Source, q.Index, q.Value)
	case q.Name != "":
		var object json.RawMessage
		var ok bool
		object, ok, err = cache.Get(ctx, q.Source, q.Namespace, q.Name)
		if err == nil && !ok && q.Namespace == "" { // in whatever namespace
			return cache.List(ctx, q.Source, handler.ListOptions{})
		}
		if ok {
			objects = []json.RawMessage{object}
		}
	default:
		o := handler.ListOptions{Namespace: q.Namespace}
		if q.Selector != nil {
			o.Selector = q.Selector.String()
		}
		return cache.List(ctx, q.Source, o)
	}
	return func(yield func(json.RawMessage, error) bool) {
		for _, o := range objects {
			if !yield(o, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// rowOf returns what a table shows of an object.
func rowOf(object json.RawMessage) (control.Row, error) {
	var o struct {
		Metadata struct {
			Namespace, Name, UID, ResourceVersion string
			CreationTimestamp                     time.Time
			Labels                                map[string]string
		}
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return control.Row{}, errors.New("the cache has an object that cannot be read")
	}
	m := o.Metadata
	return control.Row{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Created: m.CreationTimestamp, Labels: m.Labels,
	}, nil
}
