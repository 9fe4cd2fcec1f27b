package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/object/scan"
	"github.com/informd/informd/engine/plan"
)

// cluster is the objects that exist, by resource.
type cluster struct {
	objects map[schema.GroupVersionResource]map[delta.Key]*revision
	version uint64 // the last resourceVersion that was given
	uids    uint64 // how many uids were given
}

// revision is one state of an object. It is immutable.
type revision struct {
	*object.Object
	text []byte // JSON
	spec string // its spec, for the generation; "" if it has none or nobody asked
}

// change is one change of an object, as a watch reports it.
type change struct {
	resource      schema.GroupVersionResource
	before, after *revision // one of them may be nil
	version       uint64    // its resourceVersion
	last          []byte    // the last state as a watch reports it, if after is nil and it is known
}

func newCluster() *cluster {
	return &cluster{
		objects: make(map[schema.GroupVersionResource]map[delta.Key]*revision), version: 1,
	}
}

// apply creates or replaces an object, and returns what watches report: a change, or a deletion and
// a creation if the object has another uid.
func (c *cluster) apply(
	resource schema.GroupVersionResource, text []byte, now time.Time,
) ([]change, error) {
	given, isComplete, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("apply to %s: %w", object.ResourceName(resource), err)
	}
	if given.Name() == "" {
		return nil, fmt.Errorf("apply to %s: the object has no metadata.name",
			object.ResourceName(resource))
	}
	key := delta.KeyOf(given)
	before := c.objects[resource][key]
	var changes []change
	if before != nil && given.UID() != "" && given.UID() != before.UID() {
		changes = append(changes, c.remove(resource, before))
		before = nil
	}
	if isComplete && before != nil && given.ResourceVersion() == before.ResourceVersion() {
		return changes, nil // an API server sends no event about what changes nothing
	}
	after := &revision{given, text, ""}
	if !isComplete {
		if after, err = c.complete(resource, text, before, now); err != nil {
			return nil, fmt.Errorf("apply %s of %s: %w", key, object.ResourceName(resource), err)
		}
	}
	version := c.reach(after.ResourceVersion())
	if c.objects[resource] == nil {
		c.objects[resource] = make(map[delta.Key]*revision)
	}
	c.objects[resource][key] = after
	return append(changes, change{resource, before, after, version, nil}), nil
}

// read reads an object. isComplete reports whether it has everything that an API server adds.
func read(text []byte) (o *object.Object, isComplete bool, err error) {
	s := scan.New(text)
	o, view, err := parser.Parse(&s)
	if err == nil {
		defer view.Release()
		err = s.End()
	}
	if err != nil || o.UID() == "" || o.ResourceVersion() == "" {
		return o, false, err
	}
	tree, _ := view.Value().(map[string]any)
	metadata, _ := tree["metadata"].(map[string]any)
	return o, tree["apiVersion"] != nil && metadata["creationTimestamp"] != nil, nil
}

// parser reads, beside the identity, what complete fills in for every object.
var parser = func() *object.Parser {
	p := new(object.Paths)
	p.Add("apiVersion")
	p.Add("metadata", "creationTimestamp")
	return object.NewParser(nil, p)
}()

// complete adds what an API server would, where it is missing.
func (c *cluster) complete(
	resource schema.GroupVersionResource, text []byte, before *revision, now time.Time,
) (*revision, error) {
	var tree, metadata map[string]json.RawMessage
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(tree["metadata"], &metadata); err != nil {
		return nil, err
	}
	missing := func(name string, value func() string) {
		if v, ok := metadata[name]; !ok || string(v) == `""` || string(v) == "null" {
			metadata[name] = json.RawMessage(value())
		}
	}
	was := func(name string, otherwise func() string) func() string {
		return func() string {
			if before != nil {
				if v := before.metadata(name); v != nil {
					return string(v)
				}
			}
			return otherwise()
		}
	}
	spec := compact(tree["spec"])
	missing("uid", was("uid", c.uid))
	missing("creationTimestamp", was("creationTimestamp", func() string {
		return strconv.Quote(now.UTC().Format(time.RFC3339))
	}))
	missing("resourceVersion", func() string { return strconv.Quote(c.next()) })
	if spec != "" {
		missing("generation", func() string { return strconv.Itoa(before.generation(spec)) })
	}
	if tree["apiVersion"] == nil {
		tree["apiVersion"], _ = json.Marshal(resource.GroupVersion().String())
	}
	var err error
	if tree["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	if text, err = json.Marshal(tree); err != nil {
		return nil, err
	}
	o, err := object.FromJSON(text)
	return &revision{o, text, spec}, err
}

// metadata returns a field of the object's metadata, or nil.
func (s *revision) metadata(name string) json.RawMessage {
	var o struct{ Metadata map[string]json.RawMessage }
	if json.Unmarshal(s.text, &o) != nil {
		return nil
	}
	return o.Metadata[name]
}

// generation returns the generation of the object's next state, which has this spec. s may be nil.
func (s *revision) generation(spec string) int {
	if s == nil {
		return 1
	}
	n, _ := strconv.Atoi(string(s.metadata("generation")))
	if was := s.spec; was == spec {
		return max(n, 1)
	}
	return n + 1
}

func compact(text json.RawMessage) string {
	var b bytes.Buffer
	if len(text) == 0 || json.Compact(&b, text) != nil {
		return ""
	}
	return b.String()
}

// delete deletes an object.
func (c *cluster) delete(
	resource schema.GroupVersionResource, key delta.Key,
) (change, error) {
	before := c.objects[resource][key]
	if before == nil {
		return change{}, notThere(resource, key)
	}
	return c.remove(resource, before), nil
}

func (c *cluster) remove(resource schema.GroupVersionResource, s *revision) change {
	delete(c.objects[resource], delta.KeyOf(s.Object))
	c.next()
	return change{resource, s, nil, c.version, nil}
}

// deleteAs deletes an object as a watch has reported it.
func (c *cluster) deleteAs(resource schema.GroupVersionResource, last []byte) (change, error) {
	o, _, err := read(last)
	if err != nil {
		return change{}, fmt.Errorf("delete from %s: %w", object.ResourceName(resource), err)
	}
	before := c.objects[resource][delta.KeyOf(o)]
	if before == nil {
		return change{}, notThere(resource, delta.KeyOf(o))
	}
	delete(c.objects[resource], delta.KeyOf(o))
	return change{resource, before, nil, c.reach(o.ResourceVersion()), last}, nil
}

func notThere(resource schema.GroupVersionResource, key delta.Key) error {
	return fmt.Errorf("delete: there is no %s in %s", key, object.ResourceName(resource))
}

// next returns the next resourceVersion.
func (c *cluster) next() string {
	c.version++
	return strconv.FormatUint(c.version, 10)
}

// reach makes later resourceVersions higher than one that was given with an object, and returns it.
// It returns the cluster's if that is no number. Of recordings, the resources are not in step, so the
// cluster's may be higher.
func (c *cluster) reach(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return c.version
	}
	c.version = max(c.version, n)
	return n
}

func (c *cluster) uid() string {
	c.uids++
	return fmt.Sprintf(`"00000000-0000-4000-8000-%012d"`, c.uids)
}

// list returns the objects that a selection has, by namespace and name.
func (c *cluster) list(of *plan.Selector) (texts [][]byte) {
	all := c.objects[of.Resource]
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b delta.Key) int {
		if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	}) {
		if has(of, all[key]) {
			texts = append(texts, all[key].text)
		}
	}
	return texts
}

// at returns the text with another resourceVersion, as a watch reports a last state.
func (s *revision) at(version uint64) []byte {
	var tree, metadata map[string]json.RawMessage
	if json.Unmarshal(s.text, &tree) != nil || json.Unmarshal(tree["metadata"], &metadata) != nil {
		return s.text // cannot happen: it was read before
	}
	metadata["resourceVersion"] = json.RawMessage(strconv.Quote(strconv.FormatUint(version, 10)))
	tree["metadata"], _ = json.Marshal(metadata)
	text, _ := json.Marshal(tree)
	return text
}

// has reports whether the selection of a hand has a state of an object of its resource. s may be nil.
func has(of *plan.Selector, s *revision) bool { return s != nil && of.Has(s.Object) }
