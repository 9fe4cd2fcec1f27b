// Package queue holds values until their user has dealt with them. Each key's values come in order
// and one at a time; different keys proceed in parallel. The queue merges waiting values, delays
// retries, and bounds what it holds.
//
// [Queue.Take] hands out a key's values in the order in which they were added. The key is then in
// flight: the queue hands out nothing more of it until [Queue.Done] or [Queue.Retry]. Ready keys
// come first in, first out, unless their user takes another one. A key that had its turn goes
// behind the others.
//
// [Options.Merge] merges a new value into the last one that waits for the key, never into one in
// flight. A value due for a retry waits in front of its key's others and merges with them. It keeps
// its place and its delay, so a failing key does not come back sooner because it changes often.
// [Queue.Yield] makes an exception. In the worst case, the number of waiting values is the number
// of keys, times the values that Merge leaves side by side, times MaxPerKey.
//
// With [Options.Every] the queue keeps each value instead, up to bounds over the whole queue.
// Beyond them it merges newer values. That shortens history, which the queue counts, but never
// loses the last value of a key.
//
// With a [Store] each value that waits or is in flight has a record under its number. Taking a
// value writes nothing: a value in flight is recorded as if it waited. Under Every, a value that
// does not fit into memory goes away: only the store holds it. If the store has no room either, the
// queue merges the value.
//
// The values of a key that are away are those that [Queue.Restore] named and those that went away
// since. The queue holds a few numbers for them. In the key's order they come between two parts
// that wait in memory. When nothing is left in front, [Queue.Refill] loads them, a few at a time.
// It serves the keys that need values in turn, and loads no more than is soon taken. A key that
// waits for a retry holds one loaded value, so failing keys do not fill the memory. Beyond the
// bounds of Every the memory thus holds at most one value for each key, and about a megabyte.
//
// The queue does not know what values mean. Its user defines what an attempt is, how long to back
// off and when to give up, and keeps that within the values. The queue starts no goroutine; one
// timer serves all delays. Its memory follows what it holds. Values and keys are linked, not kept
// in slices, and the map and the heap move to smaller ones when they are three quarters empty.
package queue

import (
	"math"
	"sync"
	"time"
)

// Queue is a queue made by New. It is safe for concurrent use. Its parts are one state under one
// lock, because they change together. Each of them keeps one thing right about the entries.
type Queue[K comparable, V any] struct {
	refilling sync.Mutex // held during Refill; comes before mu

	// mu guards everything below. The queue calls Options.Merge, and the Store except Load, with mu
	// held. So mu is taken before their locks.
	mu     sync.Mutex
	opts   *Options[K, V] // immutable; see Reconfigure
	closed bool
	doubt  bool // see Doubt
	keys   keyed[K, V]
	rota   rota[K, V]
	delays delays[K, V]
	ages   ages[K, V]

	numbers numbers
	totals  totals
}

// Item is a value that Take handed out.
type Item[K comparable, V any] struct {
	Key   K
	Value V
	// Since is when the value was added. For a merged value, it is when the first of them was.
	Since time.Time
	// Redriven reports that Redrive added the value, in this run of the program or an earlier one.
	Redriven bool
	// N is the number of the value's record. It stays the same until the value has been dealt with.
	N uint64
	// Cut is what Store.Put returned for the value. It is 0 for a value that the store has.
	Cut uint64
	// Until is when the delay would have ended that a newer value cut short: see Queue.Yield. It is
	// zero if none was.
	Until time.Time
}

// Stats describes what a Queue holds.
type Stats struct {
	Waiting   int           // values that wait in memory, for their turn or for a retry
	Bytes     int64         // their size
	Away      int           // further values, which only the store holds
	AwayBytes int64         // their size
	InFlight  int           // keys in flight
	Delayed   int           // keys that wait for a retry, or for another load after one failed
	OldestAge time.Duration // age of the oldest value that waits or is in flight
	Shortened uint64        // total merged under Every, because of its bounds or by Shorten
	Dropped   uint64        // total of values lost because of MaxPerKey, or by the store
}

// New returns an empty Queue.
func New[K comparable, V any](o Options[K, V]) *Queue[K, V] {
	q := &Queue[K, V]{opts: o.withDefaults(), numbers: numbers{last: firstNumber - 1}}
	q.keys.clear()
	q.delays.expire = q.expire
	return q
}

func (o Options[K, V]) withDefaults() *Options[K, V] {
	if o.Merge == nil {
		o.Merge = func(_, newer V, _ bool) (V, bool, bool) { return newer, true, false }
	}
	if o.Renews == nil {
		o.Renews = func(_, _ V) bool { return true }
	}
	if o.Size == nil {
		o.Size = func(V) int64 { return 0 }
	}
	if o.MaxItems <= 0 {
		o.MaxItems = DefaultMaxItems
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxPerKey <= 0 {
		o.MaxPerKey = DefaultMaxPerKey
	}
	if o.MaxDelay <= 0 {
		o.MaxDelay = math.MaxInt64
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.AfterFunc == nil {
		o.AfterFunc = func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
	}
	return &o
}

// Reconfigure replaces the options. What the queue holds stays, in its order, and what is in flight
// ends as before. The new Store must be about the same records as the old one, and AfterFunc must
// be the same. If there is something to take or to load, Reconfigure calls the new Ready or Hungry.
func (q *Queue[K, V]) Reconfigure(o Options[K, V]) { q.notify(q.reconfigure(o)) }

func (q *Queue[K, V]) reconfigure(o Options[K, V]) news[K, V] {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.opts = o.withDefaults()
	return q.news(q.rota.firstReady() != nil)
}

// Add puts v behind the values that wait for key, or merges it with the last of them. It never
// blocks.
func (q *Queue[K, V]) Add(key K, v V) { q.AddSince(key, v, time.Time{}) }

// AddSince does what Add does with a value that is older than this call. A zero since means now.
func (q *Queue[K, V]) AddSince(key K, v V, since time.Time) { q.notify(q.add(key, v, since)) }

func (q *Queue[K, V]) add(key K, v V, since time.Time) (n news[K, V]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return news[K, V]{}
	}
	lost := q.totals.lost()
	defer func() { n.crowded = q.totals.lost() > lost }()
	e := q.keys.entry(key)
	size := q.opts.Size(v)
	full := q.opts.Every && q.totals.isFull(q.opts.MaxItems, q.opts.MaxBytes, size)
	if full && q.leaveToStore(e, v, size, since) {
		return q.news(q.requeue(e))
	}
	if last := e.back(); last != nil && (full || !q.opts.Every) {
		if q.merge(e, last.Value, v) {
			if q.opts.Every {
				q.totals.shortened++
			}
			return q.news(q.requeue(e))
		}
		if int(e.length) >= q.opts.MaxPerKey {
			q.dropOldest(e)
		}
	}
	val := q.newValue(v, q.numbers.next(), size, since)
	val.sent = q.doubt
	q.wait(e, val, nil)
	if e.away.open() && e.away.behind == nil {
		e.away.behind = &val.place
	}
	q.record(e, val)
	return q.news(q.requeue(e))
}

// Doubt tells the queue whether values added from now on may have been handed out before. A program
// may have done that and been killed before it recorded it. While it is on, the queue merges them
// as if they had been.
func (q *Queue[K, V]) Doubt(on bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.doubt = on
}

// Redrive hands out v once more after its user gave it up. The queue never merges v, and hands it
// out ahead of all other values of key. The caller must know whether newer values have been dealt
// with meanwhile. since is when v was first added; zero means now. ok is false if the queue is
// closed.
func (q *Queue[K, V]) Redrive(key K, v V, since time.Time) (ok bool) {
	news, ok := q.redrive(key, v, since)
	q.notify(news)
	return ok
}

func (q *Queue[K, V]) redrive(key K, v V, since time.Time) (_ news[K, V], ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return news[K, V]{}, false
	}
	e := q.keys.entry(key)
	val := q.newValue(v, q.numbers.nextRedriven(q.opts.Now()), q.opts.Size(v), since)
	val.sent, val.redriven = true, true
	if e.away.open() && e.away.after < firstNumber {
		e.away.redriven = append(e.away.redriven, val.n)
	}
	q.wait(e, val, e.afterRedriven())
	q.record(e, val)
	return q.news(q.requeue(e)), true
}

// Take hands out the first value of the key that has been ready longest. The key is in flight until
// Done, Retry, Shorten or Postpone. If ok is false, no key is ready, and the queue calls
// Options.Ready when one is.
func (q *Queue[K, V]) Take() (item Item[K, V], ok bool) {
	item, ok, news := q.take((*rota[K, V]).firstReady)
	q.notify(news)
	return item, ok
}

// TakeNewest does what Take does, with the key that became ready last.
func (q *Queue[K, V]) TakeNewest() (item Item[K, V], ok bool) {
	item, ok, news := q.take((*rota[K, V]).lastReady)
	q.notify(news)
	return item, ok
}

// TakeAny does what Take does, with one of the last 1024 keys that became ready, at random.
func (q *Queue[K, V]) TakeAny() (item Item[K, V], ok bool) {
	item, ok, news := q.take((*rota[K, V]).anyReady)
	q.notify(news)
	return item, ok
}

func (q *Queue[K, V]) take(
	choose func(*rota[K, V]) *entry[K, V],
) (item Item[K, V], ok bool, _ news[K, V]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := choose(&q.rota)
	if e == nil {
		return item, false, news[K, V]{}
	}
	q.rota.unready(e)
	val := e.waiting.Front().Value
	q.leave(e, val)
	e.inFlight = val
	q.totals.inFlight++
	item = Item[K, V]{
		Key: e.key, Value: val.v, Since: val.since, Redriven: val.redriven, N: val.n, Cut: val.cut,
		Until: e.endYield(),
	}
	return item, true, q.news(false)
}

// Done ends the value in flight for key and deletes its record. If key is not in flight, Done does
// nothing.
func (q *Queue[K, V]) Done(key K) { q.notify(q.done(key)) }

func (q *Queue[K, V]) done(key K) news[K, V] {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys.all[key]
	if e == nil || e.inFlight == nil {
		return news[K, V]{}
	}
	q.end(e, q.land(e))
	e.yield = nil
	return q.news(q.requeue(e))
}

// Retry puts the value in flight for key back as v, in front of the values that wait. The queue
// hands v out again after the delay. If key is not in flight, Retry does nothing.
func (q *Queue[K, V]) Retry(key K, v V, after time.Duration) {
	q.notify(q.putBack(key, v, terms{after: after, used: true}))
}

// Yield does what Retry does, but the delay yields: it ends early once a newer value has been
// merged into v, before this call or later, and Options.Renews says that this made another value of
// v. The delay then takes least, counted from this call, unless after is shorter. Item.Until says
// when it would have ended. A delay still yields after a restart; a newer value then ends it at
// once.
//
// So if a key always fails and changes often, the queue hands out one of its values per least. A
// value that cannot be merged into v waits behind it, and the delay stays as it is.
func (q *Queue[K, V]) Yield(key K, v V, after, least time.Duration) {
	q.notify(q.putBack(key, v, terms{after: after, used: true, yields: true, least: least}))
}

// Shorten does what Retry does, but merges the values behind v under Every as well, and counts them
// as Shortened. It is for a value that later ones have made impossible to handle.
func (q *Queue[K, V]) Shorten(key K, v V, after time.Duration) {
	q.notify(q.putBack(key, v, terms{after: after, used: true, shortens: true}))
}

// Postpone does what Retry does, for a value that was taken and not used. The value counts as
// handed out only if it was so before. Its record changes only if something merges into it.
func (q *Queue[K, V]) Postpone(key K, v V, after time.Duration) {
	q.notify(q.putBack(key, v, terms{after: after}))
}

// terms say how a value in flight is put back.
type terms struct {
	after    time.Duration // the delay
	used     bool          // the value counts as handed out
	shortens bool          // it merges with the values behind it under Every as well
	yields   bool          // the delay ends early, after least, once a newer value is merged into it
	least    time.Duration
}

func (q *Queue[K, V]) putBack(key K, v V, t terms) news[K, V] {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys.all[key]
	if e == nil || e.inFlight == nil {
		return news[K, V]{}
	}
	val := q.land(e)
	val.v, val.size, val.sent, val.rewritten = v, q.opts.Size(v), val.sent || t.used, true
	waits, isRenewed := true, false
	if val.redriven {
		q.wait(e, val, e.waiting.Front())
	} else {
		q.wait(e, val, e.afterRedriven())
		length := e.length
		waits = q.mergeBehind(e, val, t.shortens || !q.opts.Every)
		isRenewed = waits && e.length < length && q.opts.Renews(v, val.v)
	}
	if t.used {
		e.yield = nil
	}
	if t.after > 0 && (e.waiting.Front() != nil || e.away.open()) {
		q.delay(e, t.after)
		if t.yields && waits && e.front() == &val.place {
			e.yield = &yield{from: q.opts.Now().Add(t.least)}
			if isRenewed {
				q.delays.cutShort(e, q.opts)
			}
		}
		q.unload(e)
	}
	if waits && t.used {
		q.record(e, val)
	}
	return q.news(q.requeue(e))
}

// Rewrite replaces the value in flight for key with v and records it, so that a restart finds v. If
// key is not in flight, Rewrite does nothing. cut is what Item.Cut would be.
func (q *Queue[K, V]) Rewrite(key K, v V) (cut uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys.all[key]
	if e == nil || e.inFlight == nil {
		return 0
	}
	val := e.inFlight
	val.v, val.size, val.rewritten = v, q.opts.Size(v), true
	q.record(e, val)
	return val.cut
}

// Last returns the highest number of the values so far. Values that are added later get higher
// ones, but for those of Redrive, whose numbers are lower than all others.
func (q *Queue[K, V]) Last() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.numbers.last
}

// Waiting returns how many values wait for key: in memory, and in the store alone.
func (q *Queue[K, V]) Waiting(key K) (here, away int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.keys.all[key]
	switch {
	case e == nil:
		return 0, 0
	case e.away == nil:
		return int(e.length), 0
	}
	return int(e.length), e.away.count
}

// Holds reports whether items of a key wait, in memory or in the store, or one is in flight.
func (q *Queue[K, V]) Holds(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keys.all[key] != nil
}

// Stats returns what the queue holds.
func (q *Queue[K, V]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{
		Waiting: q.totals.waiting, Bytes: q.totals.bytes,
		Away: q.totals.away, AwayBytes: q.totals.awayBytes,
		InFlight: q.totals.inFlight, Delayed: q.delays.keys.Len(),
		Shortened: q.totals.shortened, Dropped: q.totals.dropped,
	}
	if oldest := q.ages.oldest(); !oldest.IsZero() {
		s.OldestAge = max(q.opts.Now().Sub(oldest), 0)
	}
	return s
}

// Close forgets all values but keeps their records, and stops the timer. A closed queue hands out
// and accepts nothing.
func (q *Queue[K, V]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.keys.clear()
	q.rota, q.ages = rota[K, V]{}, ages[K, V]{}
	q.delays.clear()
	q.totals.forget()
}

// news is what the queue reports after a change, once it is unlocked.
type news[K comparable, V any] struct {
	ready, hungry, crowded bool
	to                     *Options[K, V]
}

func (q *Queue[K, V]) news(ready bool) news[K, V] {
	return news[K, V]{ready: ready, hungry: q.rota.needsSupply(), to: q.opts}
}

func (q *Queue[K, V]) notify(n news[K, V]) {
	if n.ready && n.to.Ready != nil {
		n.to.Ready()
	}
	if n.hungry && n.to.Hungry != nil {
		n.to.Hungry()
	}
	if n.crowded && n.to.Crowded != nil {
		n.to.Crowded()
	}
}
