package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/engine/object"
)

// resume answers the reflector's first watch, which asks for all objects, from the saved state. It
// sends the saved objects as initial events, then the bookmark that ends these, and then the events
// of the server's own watch from the saved resourceVersion. It opens the server's watch first. If
// the server then reports that it has no history that far back, the reflector lists. ok is false if
// nothing can be resumed: then the informer compares a list with the saved state.
func (w *wire) resume(ctx context.Context, o metav1.ListOptions) (out *watching, ok bool) {
	saved := w.saved
	w.saved = nil
	current, err := w.mayResume(ctx, saved)
	if err != nil {
		level := slog.LevelInfo
		if errors.Is(err, errAhead) {
			level = slog.LevelWarn
		}
		if ctx.Err() == nil { // else everything ends, and the next run may resume
			w.informer.log.Log(ctx, level,
				"cannot resume from the saved state: comparing it with a list",
				"reason", reasonOf(err), "objects", len(saved.Objects))
			w.informer.feed.lost()
		}
		return nil, false
	}
	o.SendInitialEvents, o.ResourceVersionMatch = nil, ""
	o.ResourceVersion = saved.ResourceVersion
	w.narrow(&o)
	ctx, cancel := context.WithCancel(ctx)
	inner, release, err := w.open(ctx, o)
	if err != nil {
		if ctx.Err() == nil { // the server has lost the history
			w.informer.feed.lost()
		}
		cancel()
		return nil, false
	}
	w.resumed, w.current, w.parts = true, current, saved.Partial
	w.listed.Store(true)
	out = &watching{
		wire: w, options: o, cancel: cancel, events: make(chan watch.Event, readAhead),
		answered: w.ask(ctx),
	}
	go func() {
		defer w.calls.end()
		if out.replay(ctx, saved) {
			out.run(ctx, inner, release)
			return
		}
		inner.Stop()
		release()
		cancel()
		close(out.events)
	}()
	return out, true
}

// ask asks the server for its resourceVersion once more, after the watch was opened. A server that
// has answered that has seen all changes before the question, and has sent them, or will at once.
// The returned channel is closed when it has answered, and never if it does not.
func (w *wire) ask(ctx context.Context) (answered <-chan struct{}) {
	if !w.calls.begin() {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer w.calls.end()
		if _, err := w.informer.client.current(ctx); err == nil {
			close(done)
		}
	}()
	return done
}

// errAhead reports that the server has not reached the saved resourceVersion.
var errAhead = errors.New("the server is at an earlier resourceVersion than the saved state: " +
	"was it restored from a backup?")

// mayResume returns the server's current resourceVersion. The error says why the informer cannot go
// on from the saved one.
func (w *wire) mayResume(ctx context.Context, saved *Saved) (current string, err error) {
	switch {
	case saved.ResourceVersion == "":
		return "", errors.New("its list is incomplete")
	case !saved.follows():
		return "", errors.New("it lacks fields that the source keeps now")
	}
	err = w.persist(ctx, noSuchList, func() error {
		release, err := w.slots().acquire(ctx, w.tuning().hold)
		if err != nil {
			return err
		}
		defer release()
		current, err = w.informer.client.current(ctx)
		return err
	})
	if err != nil {
		return "", err
	}
	order, err := resourceversion.CompareResourceVersion(saved.ResourceVersion, current)
	if err != nil {
		return "", err
	}
	if order > 0 {
		return "", fmt.Errorf("%w: %s, before %s", errAhead, current, saved.ResourceVersion)
	}
	return current, nil
}

// noSuchList reports whether the server, or its administrator, does not allow an empty list. A real
// list then gives a better reason, if anything is wrong.
func noSuchList(err error) bool {
	return staleVersion(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
		apierrors.IsInvalid(err) || apierrors.IsNotAcceptable(err)
}

// nobody is a name that no object has.
const nobody = "informd.dev-no-such-object"

// current returns the server's resourceVersion, which it reads from an empty list.
func (c *apiClient) current(ctx context.Context) (string, error) {
	selector := fields.OneTermEqualSelector("metadata.name", nobody)
	o := metav1.ListOptions{FieldSelector: selector.String()}
	list, err := c.list(ctx, o, func(*entry) bool { return false })
	if err != nil {
		return "", err
	}
	return list.ResourceVersion, nil
}

// replay sends the saved state as the initial events of a watch. It returns false if ctx ends
// first.
func (w *watching) replay(ctx context.Context, saved *Saved) bool {
	for n, o := range saved.Objects {
		saved.Objects[n] = nil // from here on the store holds it
		if !w.send(ctx, watch.Event{Type: watch.Added, Object: w.wire.informer.restored(o)}) {
			return false
		}
	}
	end := initialEventsEnd(saved.ResourceVersion)
	return w.send(ctx, watch.Event{Type: watch.Bookmark, Object: end})
}

// restored makes an entry for a saved object.
func (i *Informer) restored(o *object.Object) *entry {
	e := &entry{Object: o}
	if indexes := i.shape.Load().indexes; len(indexes) > 0 {
		e.values = make([][]string, len(indexes))
		for n, index := range indexes {
			e.values[n] = i.evaluate(index, o.Decode(index.Paths))
		}
	}
	return e
}

// initialEventsEnd returns the bookmark that ends initial events.
func initialEventsEnd(version string) *entry {
	var o metav1.PartialObjectMetadata
	o.ResourceVersion = version
	o.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings always marshal
	}
	e, err := bookmark(text)
	if err != nil {
		panic(err) // the text is well-formed
	}
	return e
}

// fresh marks that a resumed watch has delivered everything that the server had when it was opened.
// If only parts of objects were saved, a list must complete them: fresh then makes the reflector
// list, and returns false.
func (w *watching) fresh(ctx context.Context) bool {
	w.wire.current = ""
	if w.wire.parts {
		expired := apierrors.NewResourceExpired("the cache has parts of objects only").Status()
		w.send(ctx, watch.Event{Type: watch.Error, Object: &expired})
		return false
	}
	w.mark(true)
	return true
}

// reached reports whether a resumed watch has come as far as the server was when the watch was
// opened.
func (w *watching) reached() bool {
	if w.wire.current == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(w.options.ResourceVersion, w.wire.current)
	return err != nil || order >= 0
}
