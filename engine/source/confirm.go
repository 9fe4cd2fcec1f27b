package source

import (
	"context"
	"iter"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/informd/informd/engine/object"
)

// confirming finds out for a consumer whether an object is still as the consumer knows it. When
// time is up for an object, the consumer must not act on what was true before. The object may have
// changed while nothing was heard, and what comes after that comes one by one.
//
// So confirming reads the object from the server, which answers from its present state, and
// compares the resourceVersions. If they differ, the change is on its way. It makes one request at
// a time. Up to maxSingle objects it reads one by one. For more it reads the server's position. If
// the consumer gets there soon, all objects are as it knows them; else confirming reads the whole
// selection.
type confirming struct {
	informer *Informer
	wake     chan struct{} // capacity 1; signals that something is wanted

	mu     sync.Mutex // guards the fields below; a leaf
	wanted map[string]struct{}
	all    bool // more than maxSingle are wanted: all are
	// reads are the objects that were read last, with their resourceVersions, and readAt is the
	// time before that. isWhole says that all objects of the selection were read, and that reads
	// has those that the consumer knows otherwise.
	reads   map[string]string
	readAt  time.Time
	isWhole bool
}

const (
	// maxSingle is how many objects are read one by one.
	maxSingle = 32
	// together is how long a read waits for others.
	together = 50 * time.Millisecond
	// reachFor is how long the consumer has to get to the server's position.
	reachFor = time.Second
	// behindFor is how long an informer may not know what was read, before it doubts its watch.
	behindFor = 5 * time.Second
)

func newConfirming(i *Informer) *confirming {
	return &confirming{informer: i, wake: make(chan struct{}, 1)}
}

// Confirms reports whether the informer knows that at a moment, or later, an object was still as
// the consumer knows it. Otherwise it finds out, also for others that the consumer may ask about
// next, and has the consumer's Tick called afterwards. The consumer's Tick calls it.
func (i *Informer) Confirms(o *object.Object, at time.Time, others iter.Seq[string]) bool {
	if i.hearing.isPast(at) {
		return true
	}
	c := i.confirming
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.readAt.IsZero() && !c.readAt.Before(at) {
		version, isThere := c.reads[o.Key()]
		if c.isWhole && !isThere || !c.isWhole && isThere && version == o.ResourceVersion() {
			return true
		}
	}
	c.want(o.Key())
	for key := range others {
		if c.all {
			break
		}
		c.want(key)
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return false
}

// want adds an object to those that are to be read. mu is held.
func (c *confirming) want(key string) {
	if c.all {
		return
	}
	if c.wanted == nil {
		c.wanted = make(map[string]struct{})
	}
	c.wanted[key] = struct{}{}
	if len(c.wanted) > maxSingle {
		c.wanted, c.all = nil, true
	}
}

// next returns the wanted keys, or all, and clears them.
func (c *confirming) next() (keys map[string]struct{}, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys, all = c.wanted, c.all
	c.wanted, c.all = nil, false
	return keys, all
}

// run reads what is wanted until ctx ends.
func (c *confirming) run(ctx context.Context) {
	i := c.informer
	tuning := i.parent.tuning
	for pause := tuning.pause; ; {
		select {
		case <-c.wake:
		case <-ctx.Done():
			return
		}
		if sleep(ctx, together) != nil {
			return
		}
		keys, all := c.next()
		if len(keys) == 0 && !all {
			continue
		}
		at := i.parent.clock.Now()
		var reads map[string]string
		isReached, err := false, error(nil)
		if all {
			isReached, err = c.catchesUp(ctx)
		}
		if isReached {
			i.hearing.take(at)
			i.feed.wake()
			continue
		}
		if err == nil {
			at = i.parent.clock.Now()
			reads, err = c.read(ctx, keys, all)
		}
		if err != nil { // the watch may still be heard; otherwise it says what is wrong
			if sleep(ctx, jitter(pause)) != nil {
				return
			}
			pause = min(2*pause, tuning.unreachablePause)
			i.feed.wake()
			continue
		}
		pause = tuning.pause
		c.mu.Lock()
		c.reads, c.readAt, c.isWhole = reads, at, all
		c.mu.Unlock()
		i.feed.wake()
		c.compare(ctx, reads, all, at)
	}
}

// catchesUp reports whether the consumer gets soon to where the server is now.
func (c *confirming) catchesUp(ctx context.Context) (isReached bool, err error) {
	i := c.informer
	version, err := i.asks().current(ctx)
	if err != nil {
		return false, err
	}
	for began := time.Now(); !i.hearing.hasReached(version); {
		if time.Since(began) > reachFor {
			return false, nil
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return false, err
		}
	}
	return true, nil
}

// read reads objects, and returns their resourceVersions; empty for one that is not there. With all
// it reads the whole selection, and returns those that the consumer knows otherwise.
func (c *confirming) read(
	ctx context.Context, keys map[string]struct{}, all bool,
) (map[string]string, error) {
	client := c.informer.client.bare()
	if !all {
		reads := make(map[string]string, len(keys))
		for key := range keys {
			version, err := client.version(ctx, key)
			if err != nil {
				return nil, err
			}
			reads[key] = version
		}
		return reads, nil
	}
	differ := make(map[string]string)
	c.informer.feed.visit(func(known iter.Seq[*object.Object]) {
		for o := range known {
			differ[o.Key()] = o.ResourceVersion()
		}
	})
	o := metav1.ListOptions{
		LabelSelector: client.selection.LabelSelector, FieldSelector: client.selection.FieldSelector,
		Limit: int64(c.informer.parent.tuning.chunk),
	}
	release, err := c.informer.parent.slots.acquire(ctx, c.informer.parent.tuning.hold)
	if err != nil {
		return nil, err
	}
	defer release()
	for room := c.informer.parent.tuning.maxListed; ; {
		list, n, err := client.page(ctx, o, room, func(e *entry) bool {
			if version, ok := differ[e.Key()]; ok && version == e.ResourceVersion() {
				delete(differ, e.Key())
			}
			return false
		})
		if err != nil {
			return nil, err
		}
		room -= n
		if o.Continue = list.Continue; o.Continue == "" {
			return differ, nil
		}
	}
}

// compare doubts the watch if it does not bring what was read, and looks at that in peace, so that
// nothing is read again and again.
func (c *confirming) compare(ctx context.Context, reads map[string]string, all bool, at time.Time) {
	i := c.informer
	isBehind := func() (is bool) {
		i.feed.look(func(get func(string) *object.Object) {
			for key, version := range reads { // with all, the versions are those that were known
				o := get(key)
				if is = o != nil && (o.ResourceVersion() == version) == all; is {
					return
				}
			}
		})
		return is && !i.hearing.isPast(at)
	}
	if !isBehind() {
		return
	}
	if sleep(ctx, min(behindFor, i.parent.tuning.quiet)) == nil && isBehind() {
		select {
		case i.hearing.doubted <- struct{}{}:
		default:
		}
	}
}

// bare returns a client that reads no more of an object than its identity.
func (c *apiClient) bare() *apiClient {
	one := *c
	one.reader = &entryReader{selection: c.selection}
	one.reader.shape.Store(newShape(new(object.Paths), nil, nil))
	return &one
}

// version returns the present resourceVersion of an object, or "" if the selection does not have
// it. It lists, with the name for a selector, because informd may list and not get.
func (c *apiClient) version(ctx context.Context, key string) (version string, err error) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = "", key
	}
	selector := fields.OneTermEqualSelector("metadata.name", name).String()
	if own := c.selection.FieldSelector; own != "" {
		selector = own + "," + selector
	}
	wait := c.patience(c.tuning.answer)
	o := metav1.ListOptions{LabelSelector: c.selection.LabelSelector, FieldSelector: selector}
	take := func(e *entry) bool {
		if e.Key() == key {
			version = e.ResourceVersion()
		}
		return false
	}
	_, _, err = c.in(namespace).listWithin(ctx, o, limits{wait, wait}, c.tuning.maxListed, take)
	return version, err
}
