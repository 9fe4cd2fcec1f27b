package recording

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

// recorder records what a cluster has of some selections, and what changes there. No two selections
// may have the same object: watches are not in step, and a watch calls an object deleted that has
// only left its selection.
type recorder struct {
	client    *rest.RESTClient
	out       *file // set before snapshot
	masker    masker
	say       func(format string, args ...any) // tells the user
	followers []*follower

	mu      sync.Mutex // guards what is below and follower.known; held while lines are written
	objects int        // in the snapshot
	changes int        // since then
}

// identity is what tells the states of objects apart.
type identity struct {
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

func identityOf(o *object.Object) identity {
	return identity{o.Namespace(), o.Name(), o.UID(), o.ResourceVersion()}
}

func newRecorder(
	client *rest.RESTClient, selections []object.Selection, say func(string, ...any),
) *recorder {
	r := &recorder{client: client, masker: newMasker(), say: say}
	for _, s := range selections {
		r.followers = append(r.followers, &follower{
			recorder: r, Selection: s, known: make(map[string]identity),
		})
	}
	return r
}

// selections returns what to record for a plan. Where selections overlap, it takes one that has all
// of them. That needs no more permissions: two selections of different namespaces do not overlap.
func selections(p *plan.Plan) (all []object.Selection) {
	for _, i := range p.Informers {
		s := i.Selection
		for merged := true; merged; { // what s has become may overlap with others
			merged = false
			all = slices.DeleteFunc(all, func(other object.Selection) bool {
				if !overlap(s, other) {
					return false
				}
				s, merged = union(s, other), true
				return true
			})
		}
		all = append(all, s)
	}
	return all
}

// overlap reports whether an object may be in both selections.
func overlap(a, b object.Selection) bool {
	return a.Resource == b.Resource &&
		(a.Namespace == "" || b.Namespace == "" || a.Namespace == b.Namespace)
}

// union returns a selection that has what two others have.
func union(a, b object.Selection) object.Selection {
	both := func(a, b string) string {
		if a == b {
			return a
		}
		return ""
	}
	return object.Selection{
		Resource: a.Resource, Namespace: both(a.Namespace, b.Namespace),
		LabelSelector: both(a.LabelSelector, b.LabelSelector),
		FieldSelector: both(a.FieldSelector, b.FieldSelector),
	}
}

// flushEvery is how often lines that were written reach the file.
const flushEvery = time.Second

// check returns an error if the selections cannot be recorded.
func (r *recorder) check(ctx context.Context) error {
	for _, f := range r.followers {
		if err := f.check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// run records the changes after the snapshot, until ctx ends.
func (r *recorder) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range r.followers {
		group.Go(func() error { return f.run(ctx) })
	}
	group.Go(func() error {
		ticks := time.NewTicker(flushEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				if err := r.out.flush(); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
	return group.Wait()
}

// snapshot writes the objects that exist.
func (r *recorder) snapshot(ctx context.Context) error {
	first := line{Type: typeRecording}
	for _, f := range r.followers {
		first.Selections = append(first.Selections, f.selection())
	}
	if err := r.out.write(first); err != nil {
		return err
	}
	for _, f := range r.followers {
		all, err := f.list(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return errors.New("ended before all objects were listed: nothing is recorded")
			}
			return err
		}
		if err := r.first(f, all); err != nil {
			return err
		}
	}
	if err := r.out.write(line{Type: typeListed}); err != nil {
		return err
	}
	r.say("%d %s; now recording changes", r.objects, cli.Plural(r.objects, "object"))
	return r.out.flush()
}

// first writes a follower's part of the snapshot.
func (r *recorder) first(f *follower, all []*object.Object) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.compare(f, all)
	r.objects += len(lines)
	return r.out.write(lines...)
}

// reported records what a watch reports.
func (r *recorder) reported(f *follower, kind string, o *object.Object) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, isNew := line{}, false
	if kind == typeDeleted {
		l, isNew = f.lost(o.Key(), o.JSON())
	} else {
		l, isNew = f.seen(o)
	}
	if !isNew {
		return nil
	}
	r.changes++
	return r.out.write(l)
}

// listedAgain records a gap: how a list differs from what is known.
func (r *recorder) listedAgain(f *follower, all []*object.Object) error {
	status, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonExpired, Code: 410, Message: errExpired.Error(),
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	changes := r.compare(f, all)
	r.changes += len(changes)
	name := object.ResourceName(f.Resource)
	lines := append([]line{{Type: typeError, Resource: name, Object: status}}, changes...)
	return r.out.write(append(lines, line{Type: typeListed, Resource: name})...)
}

// compare returns what a list of a follower changes: what is new or has changed, and what is gone.
// r.mu is held.
func (r *recorder) compare(f *follower, all []*object.Object) (lines []line) {
	listed := make(map[string]struct{}, len(all))
	for _, o := range all {
		listed[o.Key()] = struct{}{}
		if l, isNew := f.seen(o); isNew {
			lines = append(lines, l)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.known)) {
		if _, ok := listed[key]; ok {
			continue
		}
		// Nobody has its last state. informd does not need it: after a gap, it compares, too.
		last, err := json.Marshal(map[string]identity{"metadata": f.known[key]})
		if err != nil {
			continue // cannot happen: there are only strings
		}
		if l, isGone := f.lost(key, last); isGone {
			lines = append(lines, l)
		}
	}
	return lines
}

// seen notes a state of an object, and returns its line. isNew is false if the recording has that
// state. recorder.mu is held.
func (f *follower) seen(o *object.Object) (l line, isNew bool) {
	before, isKnown := f.known[o.Key()]
	now, kind := identityOf(o), typeModified
	if before == now {
		return line{}, false
	}
	if !isKnown {
		kind = typeAdded
	}
	f.known[o.Key()] = now
	return f.line(kind, o.JSON()), true
}

// lost notes that an object is gone, and returns the line of its deletion. wasKnown is false if the
// recording does not have the object. recorder.mu is held.
func (f *follower) lost(key string, last []byte) (l line, wasKnown bool) {
	_, wasKnown = f.known[key]
	delete(f.known, key)
	return f.line(typeDeleted, last), wasKnown
}

func (f *follower) line(kind string, text []byte) line {
	if f.Resource == object.Secrets {
		text = f.recorder.masker.secret(text)
	}
	return line{Type: kind, Resource: object.ResourceName(f.Resource), Object: text}
}

// unfit says that an object cannot be recorded. informd cannot read it either.
func (r *recorder) unfit(s object.Selection, err error) {
	r.say("left out an object of %v that cannot be read: %v", newSelection(s), err)
}
