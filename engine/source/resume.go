package source

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/engine/object"
)

// errResumed answers the reflector's first watch, which asks for all objects, if the saved state
// can be resumed. The reflector then lists, and watches from where the list ends.
var errResumed = errors.New("the saved state answers the list")

// resumption is the saved state on its way to the reflector: as its list, and as the watch that
// follows. A list is several times cheaper than initial events, because client-go takes those one
// by one into a store of their own.
type resumption struct {
	list  *internalversion.List // nil once the reflector has it
	watch *watching
}

// resume prepares the answers to the reflector's list and next watch: the saved objects, and the
// events of the server's own watch from the saved resourceVersion. It opens the server's watch
// first. If the server then reports that it has no history that far back, the reflector lists
// again. ok is false if nothing can be resumed: then the informer compares a list with the saved
// state.
func (w *wire) resume(ctx context.Context, o metav1.ListOptions) (ok bool) {
	saved := w.saved
	w.saved = nil
	w.asks = w.informer.client.within(slices.Values(saved.Objects))
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
		return false
	}
	o.SendInitialEvents, o.ResourceVersionMatch = nil, ""
	o.ResourceVersion = saved.ResourceVersion
	w.narrow(&o)
	w.shorten(&o, false)
	ctx, cancel := context.WithCancel(ctx)
	inner, release, err := w.open(ctx, o)
	if err != nil {
		if ctx.Err() == nil { // the server has lost the history
			w.informer.feed.lost()
		}
		cancel()
		return false
	}
	if !w.calls.begin() {
		inner.close()
		release()
		cancel()
		return false
	}
	w.resumed, w.current, w.parts = true, current, saved.Partial
	w.listed.Store(true)
	out := newWatching(w, o, cancel)
	out.answered = w.ask(ctx)
	go func() {
		defer w.calls.end()
		out.run(ctx, inner, release)
	}()
	list := &internalversion.List{Items: w.informer.reader.restored(ctx, saved, w.informer.Packer())}
	if ctx.Err() != nil {
		return false
	}
	list.ResourceVersion = saved.ResourceVersion
	w.resumption = &resumption{list, out}
	return true
}

// answer says when the server answered a request, how long that took, and its resourceVersion.
type answer struct {
	at      time.Time
	took    time.Duration
	version string
}

// stillness says when a resumed watch on which nothing comes has caught up: after silence. An
// answer to another request, sent after the watch was opened, shortens that to a multiple of the
// time that the answer took. The watch must then be silent for at least hush, or for partHush if
// only parts of objects were saved. hush is longer than informd's own pauses: a busy connection may
// hand over an event 11 ms late (gather.go).
type stillness struct{ silence, hush, partHush time.Duration }

// after returns how long a resumed watch must be silent after an answer, so that it has caught up.
// A server that is slow to answer is also slow to send events. isPartial says that only parts of
// objects were saved. A list follows such a watch, and does not show what came and went before it.
func (s stillness) after(a answer, isPartial bool) time.Duration {
	hush := min(10*a.took, s.silence)
	switch {
	case isPartial:
		return max(s.partHush, hush)
	case time.Since(a.at) > max(s.hush, hush):
		// What has come meanwhile has only to be read. The server sends the rest, if it had no
		// room, within a round trip after that.
		hush = min(2*a.took, s.silence)
	}
	return max(s.hush, hush)
}

// ask asks the server for its resourceVersion once more, after the watch was opened. A server that
// has answered that has seen all changes before the question, and has sent them, or will at once.
// The returned channel gets the answer, and nothing if there is none.
func (w *wire) ask(ctx context.Context) (answered <-chan answer) {
	if !w.calls.begin() {
		return nil
	}
	answers := make(chan answer, 1)
	began := time.Now()
	asks := w.asks
	go func() {
		defer w.calls.end()
		version, err := asks.current(ctx)
		if refuses(err) && asks != w.informer.client { // the namespace may be what is refused
			began = time.Now()
			version, err = w.informer.client.current(ctx)
		}
		if err == nil {
			now := time.Now()
			answers <- answer{now, now.Sub(began), version}
		}
	}()
	return answers
}

// errAhead reports that the server has not reached the saved resourceVersion.
var errAhead = errors.New("the server is at an earlier resourceVersion than the saved state: " +
	"was it restored from a backup?")

// mayResume returns the server's current resourceVersion. The error says why the informer cannot go
// on from the saved one.
func (w *wire) mayResume(ctx context.Context, saved *Saved) (current string, err error) {
	switch {
	case saved.ResourceVersion == "":
		return "", errors.New("the last run ended within a list, " +
			"or while the cluster did not serve the resource")
	case !saved.follows():
		return "", errors.New("it lacks fields that the source keeps now")
	}
	err = w.persist(ctx, noSuchList, func() error {
		release, err := w.slots().acquire(ctx, w.tuning().hold)
		if err != nil {
			return err
		}
		defer release()
		current, err = w.asks.current(ctx)
		if refuses(err) && w.asks != w.informer.client {
			w.asks = w.informer.client // the namespace may be what is refused
			current, err = w.asks.current(ctx)
		}
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

// refuses reports whether err is the server's answer that it will not serve such a request.
func refuses(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code/100 == 4 && code != http.StatusTooManyRequests
}

// nobody is a name that no object has.
const nobody = "informd.dev-no-such-object"

// within returns a client for current. If the objects have namespaces, it asks in a namespace that
// every cluster has, because kube-apiserver then looks up one name. In all namespaces, it would
// look through all objects: a tenth of a second for 100,000.
func (c *apiClient) within(objects iter.Seq[*object.Object]) *apiClient {
	for o := range objects {
		if c.selection.Namespace == "" && o.Namespace() != "" {
			return c.in(metav1.NamespaceDefault)
		}
		break
	}
	return c
}

// in returns a client for the selection's objects in a namespace.
func (c *apiClient) in(namespace string) *apiClient {
	one := *c
	one.selection.Namespace = namespace
	return &one
}

// current returns the server's resourceVersion, which it reads from an empty list.
func (c *apiClient) current(ctx context.Context) (string, error) {
	selector := fields.OneTermEqualSelector("metadata.name", nobody)
	o := metav1.ListOptions{FieldSelector: selector.String()}
	wait := c.patience(c.tuning.answer)
	list, _, err := c.listWithin(ctx, o, limits{wait, wait}, c.tuning.maxListed,
		func(*entry) bool { return false })
	if err != nil {
		return "", err
	}
	return list.ResourceVersion, nil
}

// fresh marks that a resumed watch has delivered everything that the server had when it was opened.
// If only parts of objects were saved, a list must complete them: fresh then makes the reflector
// list, and returns false. w.mu is held.
func (w *watching) fresh(ctx context.Context) bool {
	w.wire.current = ""
	if w.wire.parts {
		w.complete(ctx)
		return false
	}
	w.mark(true)
	return true
}

// complete makes the reflector list, because the cache has parts of objects only.
func (w *watching) complete(ctx context.Context) {
	expired := apierrors.NewResourceExpired("the cache has parts of objects only").Status()
	w.send(ctx, watch.Event{Type: watch.Error, Object: &expired})
}

// reached reports whether a resumed watch has reached the resourceVersion that the server had when
// the watch was opened. w.mu is held.
func (w *watching) reached() bool {
	if w.wire.current == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(w.options.ResourceVersion, w.wire.current)
	return err != nil || order >= 0
}
