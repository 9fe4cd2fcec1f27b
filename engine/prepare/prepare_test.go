package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/config"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/plugins/handler"
)

// shelf is a Source of a few objects, with one index, by name.
type shelf struct {
	name     string
	objects  []*object.Object
	unsynced bool
	panics   bool
}

func (s *shelf) Name() string    { return s.name }
func (s *shelf) HasSynced() bool { return !s.unsynced }

func (s *shelf) Get(namespace, name string) (*object.Object, bool) {
	for _, o := range s.objects {
		if o.Namespace() == namespace && o.Name() == name {
			return o, true
		}
	}
	return nil, false
}

func (s *shelf) ByIndex(_, value string) (object.Bucket, error) {
	var found []*object.Object
	if s.panics {
		panic("oops")
	}
	for _, o := range s.objects {
		if o.Name() == value {
			found = append(found, o)
		}
	}
	return object.BucketOf(found), nil
}

func configMap(t *testing.T, name, version, size string) *object.Object {
	t.Helper()
	o, err := object.FromJSON(fmt.Appendf(nil,
		`{"metadata":{"namespace":"b","name":%q,"uid":"u-%s","resourceVersion":%q},"data":{"size":%q}}`, name, name, version, size))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const sources = `
apiVersion: informd.dev/v1alpha1
kind: Handler
metadata: {name: h}
spec: {builtin: log}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: maps}
spec: {resource: v1/configmaps, indexes: {byName: object.metadata.name}}
---
apiVersion: informd.dev/v1alpha1
kind: Source
metadata: {name: others}
spec: {resource: v1/configmaps, namespaces: [c], indexes: {byName: object.metadata.name}}
---
apiVersion: informd.dev/v1alpha1
kind: Rule
metadata: {name: r}
spec: {source: maps, `

// recipe returns the Recipe of a rule with the given lines added to its spec.
func recipe(t *testing.T, spec string, maps, others *shelf) *Recipe {
	t.Helper()
	c, mistakes := config.Parse([]config.File{{Path: "r.yaml", Data: []byte(sources + spec + "}\n")}})
	p, more := plan.Compile(c)
	if mistakes = append(mistakes, more...); len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	maps.name, others.name = "maps", "others"
	return New(p.Rules[0], func(name string) Source {
		if name == "others" {
			return others
		}
		return maps
	})
}

func TestPrepare(t *testing.T) {
	const (
		small    = `handler: h, when: object.data.size == "1", payload: 'event + object.data.size'`
		looks    = `handler: h, payload: 'first(lookup("others.byName", "x")).data.size'`
		attaches = `handler: h, attach: {x: 'lookup("others.byName", "x")'}`
		acts     = `where: object.data.size != "0", prune: true, actions: [{apply: {resource: v1/configmaps, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: made, namespace: b}, data: {size: '${object.data.size}'}}}}]`
		unserved = `actions: [{if: object.data.size != "1", apply: {apiVersion: example.com/v1, kind: Sheep, metadata: {name: a}}}, {delete: {}}]`
		both     = acts + `, handler: h, payload: object.data.size`
	)
	for _, c := range []struct {
		name, spec string
		version    string // of the draft's object; its size equals its version
		draft      delivery.Draft
		now        []string // versions of the object in the cache; none if empty
		others     shelf
		want       string
	}{
		{name: "it is decided, and counted", spec: small, version: "1", draft: delivery.Draft{Undecided: true}, want: `added/1 "added1" selected`},
		{name: "it is decided against", spec: small, version: "2", draft: delivery.Draft{Undecided: true}, want: "nothing"},
		{name: "what is decided stands", spec: small, version: "2", draft: delivery.Draft{Payload: []byte(`"old"`)}, want: `added/2 "old"`},
		{name: "a stale payload is made anew", spec: small, version: "2", draft: delivery.Draft{Payload: []byte(`"old"`), Stale: true}, want: `added/2 "added2"`},
		{name: "a payload that panics stands", spec: looks, version: "2", draft: delivery.Draft{Payload: []byte(`"old"`), Stale: true},
			others: shelf{panics: true}, want: `added/2 "old" failed: payload: internal failure while evaluating`},
		{name: "a payload that cannot be made", spec: looks, version: "2", draft: delivery.Draft{Undecided: true},
			others: shelf{panics: true}, want: `as before selected failed: payload: internal failure while evaluating rejected`},
		{name: "a payload that cannot be made anew", spec: looks, version: "2", draft: delivery.Draft{Renew: true},
			others: shelf{panics: true}, want: `as before failed: payload: internal failure while evaluating rejected`},
		{name: "it is renewed with the object as it is", spec: small, version: "2", draft: delivery.Draft{Renew: true}, now: []string{"7"}, want: `added/7 "added7"`},
		{name: "an object that is gone is renewed as it was", spec: small, version: "2", draft: delivery.Draft{Renew: true}, want: `added/2 "added2"`},
		{name: "nothing is found to attach", spec: attaches, version: "2", want: `added/2 attached x 0`},
		{name: "attaching panics", spec: attaches, version: "2", others: shelf{panics: true},
			want: "added/2 failed: attach x: internal failure while evaluating rejected"},
		{name: "it acts", spec: acts, version: "2", want: `added/2 apply made prunes`},
		{name: "it acts no more outside", spec: acts, version: "2", draft: delivery.Draft{Renew: true}, now: []string{"0"}, want: "nothing"},
		{name: "a kind is not served", spec: unserved, version: "2", want: "added/2 informd has not found this kind in the cluster, " +
			"and goes on when the cluster serves it: Sheep of example.com/v1"},
		{name: "a kind is not served, and not needed", spec: unserved, version: "1", want: "added/1 delete a"},
		{name: "a kind is not served, and prune is to find its objects", spec: "prune: true, " + unserved, version: "1",
			want: "added/1 informd has not found this kind in the cluster, and goes on when the cluster serves it: Sheep of example.com/v1"},
		{name: "with a handler, it is told first", spec: both, version: "2", draft: delivery.Draft{Undecided: true}, want: `added/2 "2" selected`},
		{name: "the handler is told of it outside, too", spec: both, version: "2", draft: delivery.Draft{Renew: true}, now: []string{"0"}, want: `added/0 "0"`},
		{name: "it acts once the handler is done", spec: both, version: "2", draft: delivery.Draft{Payload: []byte(`"2"`), Acknowledged: true}, want: `added/2 "2" apply made prunes`},
		{name: "it acts no more outside, though the handler is done", spec: both, version: "2", draft: delivery.Draft{Renew: true, Acknowledged: true}, now: []string{"0"}, want: "nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			maps := &shelf{}
			for _, v := range c.now {
				maps.objects = append(maps.objects, configMap(t, "a", v, v))
			}
			c.draft.Delta = delta.Delta{Type: delta.Added, Object: configMap(t, "a", c.version, c.version)}
			p := recipe(t, c.spec, maps, &c.others)
			if got := told(p.Prepare(c.draft, time.Unix(0, 0))); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// told formats a result.
func told(r Result) string {
	var words []string
	if r.Nothing {
		words = append(words, "nothing")
	} else if r.Delta.Object == nil {
		words = append(words, "as before")
	} else {
		words = append(words, r.Delta.Type.String()+"/"+r.Delta.Object.ResourceVersion())
		if r.Payload != nil {
			words = append(words, string(r.Payload))
		}
		for name, objects := range r.Attached {
			words = append(words, fmt.Sprint("attached ", name, " ", len(objects)))
		}
		for _, step := range r.Steps {
			for _, a := range step.Actions {
				words = append(words, a.Verb, a.Name)
			}
		}
		if r.PruneBy != "" {
			words = append(words, "prunes")
		}
	}
	if r.Selected {
		words = append(words, "selected")
	}
	for _, err := range r.Failures {
		words = append(words, "failed:", err.Error())
	}
	if r.Err != nil {
		words = append(words, map[bool]string{true: "rejected", false: r.Err.Error()}[errors.Is(r.Err, handler.ErrReject)])
	}
	return strings.Join(words, " ")
}

// A rule prunes nothing while it cannot read what it looks into: another attempt may be able to.
func TestMissingSourcePreventsPruning(t *testing.T) {
	const acts = `prune: true, actions: [{forEach: 'byIndex("byName", "a")', apply: {resource: v1/configmaps, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: made, namespace: b}}}}]`
	p := recipe(t, acts, &shelf{unsynced: true}, &shelf{})
	r := p.Prepare(delivery.Draft{Delta: delta.Delta{Type: delta.Added, Object: configMap(t, "a", "1", "1")}}, time.Unix(0, 0))
	if r.Err == nil || errors.Is(r.Err, handler.ErrReject) || !strings.Contains(r.Err.Error(), "cannot read the sources") || r.Steps != nil {
		t.Errorf("%v, %v", r.Err, r.Steps)
	}
}

// The marks on applied objects name the rule's source object, if nobody has tampered with them.
func TestSourceOf(t *testing.T) {
	const acts = `prune: true, actions: [{apply: {resource: v1/configmaps, object: {metadata: {name: made, namespace: b, annotations: {own: "yes"}}}}}]`
	p := recipe(t, acts, &shelf{}, &shelf{})
	r := p.Prepare(delivery.Draft{Delta: delta.Delta{Type: delta.Added, Object: configMap(t, "a", "1", "1")}}, time.Unix(0, 0))
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	var made struct {
		Metadata struct{ Labels, Annotations map[string]string }
	}
	if err := json.Unmarshal(r.Steps[0].Actions[0].Object, &made); err != nil {
		t.Fatal(err)
	}
	labels, annotations := made.Metadata.Labels, made.Metadata.Annotations
	if key, ok := p.SourceOf(labels, annotations); !ok || key.String() != "b/a" || annotations["own"] != "yes" {
		t.Errorf("%v of %v, %v", key, labels, annotations)
	}
	for _, tampered := range []string{"", "v1/configmaps b/other", "v1/secrets b/a", "v1/configmaps", "v1/configmaps "} {
		if key, ok := p.SourceOf(labels, map[string]string{SourceAnnotation: tampered}); ok {
			t.Errorf("%q is %v", tampered, key)
		}
	}
}
