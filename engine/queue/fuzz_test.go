package queue

import (
	"cmp"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// oracle is the queue as one would write it if cost did not matter.
type oracle struct {
	every              bool
	maxItems, maxBytes int
	maxPerKey          int
	keys               map[string]*oracleKey
	ready              []string // keys that can be taken, in turn
	shortened, dropped uint64
	turn               int
}

type oracleKey struct {
	waiting  []oracleValue
	inFlight *oracleValue
	due      time.Time // zero unless delayed
	turn     int

	yields bool      // the delay ends early for a newer value
	from   time.Time // when it may
	until  time.Time // when the delay would have ended that did
}

// renews stands for whatever the user of a queue decides.
func renews(waiting, merged change) bool { return merged.state&3 != 0 || merged.kind != waiting.kind }

type oracleValue struct {
	change
	sent, redriven bool
	since          time.Time
}

func sizeOf(c change) int64 { return int64(c.state%5 + 1) }

func (o *oracle) key(key string) *oracleKey {
	if o.keys[key] == nil {
		o.keys[key] = &oracleKey{}
	}
	return o.keys[key]
}

func (o *oracle) stats() (s Stats) {
	s.Shortened, s.Dropped = o.shortened, o.dropped
	for _, k := range o.keys {
		if k.inFlight != nil {
			s.InFlight++
			s.OldestAge = max(s.OldestAge, time.Since(k.inFlight.since))
		}
		if !k.due.IsZero() {
			s.Delayed++
		}
		for _, v := range k.waiting {
			s.Waiting++
			s.Bytes += sizeOf(v.change)
			s.OldestAge = max(s.OldestAge, time.Since(v.since))
		}
	}
	return s
}

// settle puts key on the ready list, or takes it off, according to its state.
func (o *oracle) settle(key string) {
	k := o.keys[key]
	if len(k.waiting) == 0 {
		k.due = time.Time{}
	}
	should := len(k.waiting) > 0 && k.inFlight == nil && k.due.IsZero()
	at := slices.Index(o.ready, key)
	if should && at < 0 {
		o.ready = append(o.ready, key)
	}
	if !should && at >= 0 {
		o.ready = slices.Delete(o.ready, at, at+1)
	}
}

func (o *oracle) add(key string, c change) {
	k, s, last := o.key(key), o.stats(), len(o.key(key).waiting)-1
	full := !o.every || s.Waiting >= o.maxItems || s.Bytes+sizeOf(c) > int64(o.maxBytes)
	defer o.settle(key)
	if last >= 0 && !k.waiting[last].redriven && full {
		if merged, keep, ok := mergeChanges(k.waiting[last].change, c, k.waiting[last].sent); ok {
			was := k.waiting[last].change
			k.waiting[last].change = merged
			if !keep {
				k.waiting = k.waiting[:last]
			} else if last == 0 && renews(was, merged) {
				o.cutShort(k)
			}
			if o.every {
				o.shortened++
			}
			return
		}
	}
	if full && len(k.waiting) >= o.maxPerKey && k.redriven() < len(k.waiting) {
		k.waiting = slices.Delete(k.waiting, k.redriven(), k.redriven()+1)
		o.dropped++
	}
	k.waiting = append(k.waiting, oracleValue{change: c, since: time.Now()})
}

func (o *oracle) cutShort(k *oracleKey) {
	if !k.yields || k.due.IsZero() || !k.from.Before(k.due) {
		return
	}
	k.yields, k.until, k.due = false, k.due, time.Time{}
	if k.from.After(time.Now()) {
		o.turn++
		k.due, k.turn = k.from, o.turn
	}
}

func (k *oracleKey) redriven() int {
	return len(k.waiting) - len(slices.DeleteFunc(slices.Clone(k.waiting), func(v oracleValue) bool { return v.redriven }))
}

func (o *oracle) redrive(key string, c change) {
	k := o.key(key)
	k.waiting = slices.Insert(k.waiting, k.redriven(), oracleValue{c, true, true, time.Now()})
	o.settle(key)
}

func (o *oracle) take() (key string, v oracleValue, until time.Time, ok bool) {
	if len(o.ready) == 0 {
		return "", v, until, false
	}
	key = o.ready[0]
	k := o.keys[key]
	v, k.waiting = k.waiting[0], slices.Clone(k.waiting[1:])
	k.inFlight, k.yields = &v, false
	o.settle(key)
	return key, v, k.until, true
}

func (o *oracle) done(key string) {
	if k := o.key(key); k.inFlight != nil {
		k.inFlight, k.until = nil, time.Time{}
	}
	o.settle(key)
}

// putBack does what Retry, Postpone, Shorten and Yield do. least is negative unless the delay yields.
func (o *oracle) putBack(key string, after time.Duration, used, shorten bool, least time.Duration) {
	k := o.key(key)
	if k.inFlight == nil {
		return
	}
	v, at := *k.inFlight, k.redriven()
	k.inFlight, v.sent = nil, v.sent || used
	if v.redriven {
		at = 0
	}
	behind, isMerged, waits := slices.Clone(k.waiting[at:]), false, true
	k.waiting = append(k.waiting[:at:at], v)
	for len(behind) > 0 && (!o.every || shorten) && !v.redriven {
		merged, keep, ok := mergeChanges(k.waiting[at].change, behind[0].change, v.sent)
		if !ok {
			break
		}
		if o.every {
			o.shortened++
		}
		k.waiting[at].change, behind, isMerged = merged, behind[1:], true
		if !keep {
			k.waiting, waits = k.waiting[:at], false
			break
		}
	}
	isRenewed := isMerged && waits && renews(v.change, k.waiting[at].change)
	k.waiting = append(k.waiting, behind...)
	if used {
		k.yields, k.until = false, time.Time{}
	}
	if after > 0 && len(k.waiting) > 0 {
		o.turn++
		k.due, k.turn = time.Now().Add(after), o.turn
		if least >= 0 && waits && at == 0 {
			k.yields, k.from = true, time.Now().Add(least)
			if isRenewed {
				o.cutShort(k)
			}
		}
	}
	o.settle(key)
}

// expire makes ready what is due by now.
func (o *oracle) expire() {
	var due []string
	for key, k := range o.keys {
		if !k.due.IsZero() && !k.due.After(time.Now()) {
			due = append(due, key)
		}
	}
	slices.SortFunc(due, func(a, b string) int {
		return cmp.Or(o.keys[a].due.Compare(o.keys[b].due), cmp.Compare(o.keys[a].turn, o.keys[b].turn))
	})
	for _, key := range due {
		o.keys[key].due = time.Time{}
		o.settle(key)
	}
}

// FuzzQueue applies the same operations to a Queue and to the oracle, and compares everything that
// is visible of them.
func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 0, 8, 1, 2, 0, 3, 8, 4, 0, 2, 5, 6})
	f.Add([]byte{1, 0, 0, 8, 0, 16, 2, 0, 1, 3, 0, 9, 0, 17, 7, 0, 4, 0, 6, 6, 6})
	f.Add([]byte{2, 0, 8, 8, 1, 2, 0, 3, 8, 4, 0, 2, 5, 6})
	f.Add([]byte{3, 8, 1, 8, 2, 8, 3, 8, 4, 8, 5, 8, 6, 2, 3, 2, 3, 2, 3})
	f.Add([]byte{0, 0, 0, 2, 0, 2, 5, 4, 7, 1, 2, 0, 2, 0, 1, 5, 14, 2, 0, 2, 5, 5})
	f.Add([]byte{1, 0, 0, 2, 0, 1, 0, 1, 0, 2, 5, 16, 2, 4, 0, 1, 0, 1, 2, 5, 17, 7, 1})
	f.Add([]byte{1, 8, 1, 8, 2, 8, 3, 8, 4, 8, 5, 8, 6, 2, 3, 2, 3, 2, 3})
	f.Add([]byte{0, 0, 1, 2, 5, 39, 0, 1, 2, 7, 1, 0, 1, 2, 5, 103, 0, 1, 7, 1, 0, 1, 7, 1, 2, 4}) // yields
	f.Add([]byte{1, 0, 1, 2, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 5, 35, 0, 1, 2, 5, 227, 6, 0, 1, 7, 3, 2})
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 1000 {
			t.Skip("longer programs only take longer")
		}
		synctest.Test(t, func(t *testing.T) { compare(t, program) })
	})
}

func compare(t *testing.T, program []byte) {
	next := func() (b byte) {
		if len(program) > 0 {
			b, program = program[0], program[1:]
		}
		return b
	}
	const maxItems, maxBytes, maxPerKey = 5, 16, 3
	setup := next()
	every := setup&1 == 1
	o := &oracle{every: every, maxItems: maxItems, maxBytes: maxBytes, maxPerKey: maxPerKey, keys: map[string]*oracleKey{}}
	told := true // something became ready since Take found nothing
	options := Options[string, change]{
		Every: every, MaxItems: maxItems, MaxBytes: maxBytes, MaxPerKey: maxPerKey, Size: sizeOf,
		Renews: renews, Ready: func() { told = true },
	}
	d := newDisk(t)
	if setup&2 == 2 {
		d.noRoom, options.Store = true, d // a store without room changes nothing
	}
	q := newChanges(options)
	defer q.Close()
	takeBoth := func() bool {
		item, ok := q.Take()
		key, v, until, want := o.take()
		equal(t, "ok", ok, want)
		equal(t, "item", item, Item[string, change]{Key: key, Value: v.change, Since: v.since, Redriven: v.redriven, N: item.N, Until: until})
		if ok && !told {
			t.Fatal("a key became ready, and nobody was told")
		}
		told = ok
		return ok
	}

	for state := 0; len(program) > 0; state++ {
		op := next()
		key := string('a' + rune(op>>3&3))
		switch op & 7 {
		case 0, 1:
			b := next()
			c := change{[]string{"added", "updated", "deleted", "synced"}[b&3], string('1' + rune(b>>2&1)), state}
			q.Add(key, c)
			o.add(key, c)
		case 2, 3:
			takeBoth()
		case 4:
			q.Done(key)
			o.done(key)
		case 5:
			b := next()
			after, used, putBack := time.Duration(b&3)*time.Second, b&4 == 0, q.Retry
			shorten, least := used && b&16 != 0, time.Duration(-1)
			switch {
			case !used:
				putBack = q.Postpone
			case shorten:
				putBack = q.Shorten
			case b&32 != 0:
				least = time.Duration(b>>6) * time.Second
				putBack = func(key string, c change, after time.Duration) { q.Yield(key, c, after, least) }
			}
			var c change
			if k := o.key(key); k.inFlight != nil {
				c = k.inFlight.change
			}
			if b&8 != 0 {
				q.Rewrite(key, c)
			}
			putBack(key, c, after)
			o.putBack(key, after, used, shorten, least)
		case 6:
			c := change{"updated", "1", state}
			q.Redrive(key, c, time.Time{})
			o.redrive(key, c)
		case 7:
			time.Sleep(time.Duration(next()&3) * time.Second)
		}
		synctest.Wait()
		o.expire()
		equal(t, "stats", q.Stats(), o.stats())
		if s := q.Stats(); options.Store != nil {
			equal(t, "records", len(d.all()), s.Waiting+s.InFlight)
		}
	}

	for key := range o.keys { // drain
		q.Done(key)
		o.done(key)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	o.expire()
	for takeBoth() {
		for key := range o.keys {
			q.Done(key)
			o.done(key)
		}
	}
	equal(t, "stats when drained", q.Stats(), Stats{Shortened: o.shortened, Dropped: o.dropped})
	equal(t, "keys when drained", len(q.keys.all), 0)
}
