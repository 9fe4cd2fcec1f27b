package targets

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/state/records"
)

// The model has two rules that prune, with three source objects, and a rule that does not, with
// one.
var (
	everyAsker = []Asker{asks("p", "a"), asks("p", "b"), asks("q", "a"), asks("n", "a")}
	everyPlace = []Target{config("x", "1"), config("x", "2"), config("y", "1"), config("y", "2")}
)

func asks(rule, name string) Asker { return Asker{rule, delta.Key{Namespace: "s", Name: name}} }

func prunes(a Asker) bool { return a.Rule != "n" }

// durable is what a crash leaves. Every cut has one.
type durable struct {
	notes    map[records.NoteID][]byte
	lanes    map[Asker]int      // the event that waits for delivery
	seen     map[Asker]int      // the last event that was taken from the cluster
	owners   map[Target][]Asker // who asks, in order: the first one is the owner
	dropping map[Target]bool    // the owner asks no more, and nobody else does
}

func (d *durable) clone() durable {
	c := durable{
		maps.Clone(d.notes), maps.Clone(d.lanes), maps.Clone(d.seen), maps.Clone(d.owners), maps.Clone(d.dropping),
	}
	for at, of := range c.owners {
		c.owners[at] = slices.Clone(of)
	}
	return c
}

func (d *durable) PutNote(n records.Note) {
	d.notes[records.NoteID{Rule: n.Rule, Name: n.Name}] = n.Value
}

func (d *durable) DeleteNote(rule, name string) {
	delete(d.notes, records.NoteID{Rule: rule, Name: name})
}

// object is a target in the cluster: who applied it last, and for which event.
type object struct {
	by     Asker
	event  int
	isLeft bool // its rule is gone: it may stay
}

// request is an attempt under way.
type request struct {
	Attempt
	at     Target
	event  int
	isLeft bool // its rule was dropped meanwhile, or the one that has the target since
}

// walk is a wave of one source object.
type walk struct {
	*Wave
	event int
	asks  map[Target]int // how often one of its walks asks for a target
	todo  []chore
}

// chore is a target to be tried, in the second walk of a wave.
type chore struct {
	Target
	isAsked bool // the second walk asks for it
}

// deed is what a source object does to a target for an event.
type deed struct {
	by    Asker
	at    Target
	event int
}

// world is a cluster, an informd and its disk.
type world struct {
	t     *testing.T
	table *Table
	now   time.Time

	durable             // as it is now
	cuts      []durable // since the oldest that a crash may go back to
	lastEvent int
	wishes    map[int]byte  // what an event asks for: a bit for each target, and four for once more
	wants     map[Asker]int // the event that the cluster has for each source object
	isGone    map[string]bool
	cluster   map[Target]object
	deeds     map[deed]int // how often they were done
	hasBegun  map[int]bool // by event: it had a wave
	restored  int          // the last event before a crash
	requests  []request
	walks     map[Asker]*walk
	until     map[Asker]time.Time
	offers    []Asker        // that heirs are to be delivered
	spares    bool           // waves do not prune
	failed    map[Asker]bool // the last event failed, or spared what it does not ask for
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, now: noon, wishes: make(map[int]byte), wants: make(map[Asker]int),
		durable: durable{
			make(map[records.NoteID][]byte), make(map[Asker]int), make(map[Asker]int),
			make(map[Target][]Asker), make(map[Target]bool),
		},
		isGone: make(map[string]bool), cluster: make(map[Target]object), deeds: make(map[deed]int), hasBegun: make(map[int]bool),
		walks: make(map[Asker]*walk), until: make(map[Asker]time.Time), failed: make(map[Asker]bool),
	}
	w.table = New(&w.durable)
	w.cut(func() {})
	return w
}

// cut makes one cut of all that do records.
func (w *world) cut(do func()) {
	do()
	w.cuts = append(w.cuts, w.durable.clone())
}

// await has all cuts so far survive a crash.
func (w *world) await() { w.cuts = w.cuts[len(w.cuts)-1:] }

func (w *world) offer(heirs ...Claim) {
	for _, h := range heirs {
		if w.owners[h.Target][0] != h.Asker {
			w.t.Fatalf("%v is offered %v, whose owners are %v", h.Asker, h.Target, w.owners[h.Target])
		}
		w.offers = append(w.offers, h.Asker)
	}
}

// want makes a new event of a source object.
func (w *world) want(a Asker, wish byte) {
	w.lastEvent++
	w.isGone[a.Rule] = false
	w.wants[a], w.wishes[w.lastEvent] = w.lastEvent, wish
	w.cut(func() { w.lanes[a], w.seen[a] = w.lastEvent, w.lastEvent })
	delete(w.until, a)
}

// deliverOffers has what was handed over delivered.
func (w *world) deliverOffers() {
	for _, a := range w.offers {
		if w.seen[a] != 0 && !w.isGone[a.Rule] {
			w.cut(func() { w.lanes[a] = w.seen[a] })
			delete(w.until, a)
		}
	}
	w.offers = nil
}

func (w *world) step(a Asker) {
	if wk := w.walks[a]; wk != nil {
		if len(wk.todo) == 0 {
			w.end(a, wk)
			return
		}
		next := wk.todo[0]
		wk.todo = wk.todo[1:]
		if next.isAsked {
			isNew := false
			w.cut(func() {
				isNew = wk.Ask(next.Target, prunes(a))
				w.noteAsk(a, next.Target)
			})
			if isNew {
				w.await()
			}
		}
		w.try(a, wk, next.Target)
		return
	}
	event, ok := w.lanes[a]
	if !ok || w.now.Before(w.until[a]) {
		return
	}
	w.await() // of the delivery
	wk := &walk{Wave: w.table.Begin(a, EventOf(fmt.Sprint(event), 0)), event: event, asks: make(map[Target]int)}
	w.walks[a] = wk
	w.failed[a] = w.spares
	wish := w.wishes[event]
	var dropped []Claim
	isNew := false
	w.cut(func() {
		var known []Target
		for i := range 2 * len(everyPlace) {
			at := everyPlace[i%len(everyPlace)]
			if wish>>i&1 == 0 {
				continue
			}
			wk.asks[at]++
			wk.todo = append(wk.todo, chore{at, true})
			if i < len(everyPlace) || event%3 != 0 || w.hasBegun[event] { // else the first walk misses it
				wk.Ask(at, prunes(a))
				known = append(known, at)
			}
		}
		w.hasBegun[event] = true
		var heirs []Claim
		dropped, heirs, isNew = wk.Asked(prunes(a) && !w.spares)
		w.noteAsked(a, known)
		w.offer(heirs...)
	})
	for _, c := range dropped {
		if c.State != Dropped || w.owners[c.Target][0] != a || !w.dropping[c.Target] {
			w.t.Fatalf("%v drops %v", a, c)
		}
		wk.todo = append(wk.todo, chore{c.Target, false})
	}
	if isNew {
		w.await()
	}
}

// fail has a wave end before it is known what is asked for.
func (w *world) fail(a Asker, wish byte) {
	event, ok := w.lanes[a]
	if !ok || w.walks[a] != nil {
		return
	}
	w.failed[a] = true
	wave := w.table.Begin(a, EventOf(fmt.Sprint(event), 0))
	for i, at := range everyPlace {
		if wish>>i&1 != 0 {
			wave.Ask(at, prunes(a))
		}
	}
	w.cut(func() {
		w.offer(w.table.Forget(a)...)
		delete(w.lanes, a)
	})
}

// noteAsked is what the model makes of a wave.
func (w *world) noteAsked(a Asker, todo []Target) {
	if !prunes(a) {
		return
	}
	for _, at := range everyPlace {
		i := slices.Index(w.owners[at], a)
		switch {
		case slices.Contains(todo, at):
			w.noteAsk(a, at)
		case w.spares:
		case i == 0 && len(w.owners[at]) == 1:
			w.dropping[at] = true
		case i >= 0:
			w.remove(a, at)
		}
	}
}

// noteAsk is what the model makes of one target of a wave.
func (w *world) noteAsk(a Asker, at Target) {
	i := slices.Index(w.owners[at], a)
	switch {
	case !prunes(a):
	case i == 0:
		delete(w.dropping, at)
	case i < 0 && w.dropping[at] && !w.isOpen(at):
		w.owners[at] = []Asker{a}
		delete(w.dropping, at)
	case i < 0:
		w.owners[at] = append(w.owners[at], a)
	}
}

func (w *world) remove(a Asker, at Target) {
	if w.owners[at][0] == a {
		delete(w.dropping, at)
	}
	w.owners[at] = slices.DeleteFunc(w.owners[at], func(b Asker) bool { return a == b })
}

// isOpen reports whether a request of an owner, or of a former one, is under way.
func (w *world) isOpen(at Target) bool {
	return slices.ContainsFunc(w.requests, func(r request) bool {
		return r.at == at && prunes(r.Claim.Asker)
	})
}

func (w *world) try(a Asker, wk *walk, at Target) {
	of := w.owners[at]
	isOthers := prunes(a) && (len(of) == 0 || of[0] != a)
	attempt, verdict := tryOne(wk.Wave, at, w.now)
	switch {
	case verdict == Try && isOthers, verdict == Try && prunes(a) && w.isOpen(at):
		w.t.Fatalf("%v tries %v; owners are %v", a, at, of)
	case verdict == Try && attempt.Claim.State == Dropped && len(of) > 1:
		w.t.Fatalf("%v deletes %v; owners are %v", a, at, of)
	case verdict == Refuse && isOthers && attempt.Claim.Asker != of[0]:
		w.t.Fatalf("%v is refused %v for %v; owners are %v", a, at, attempt.Claim.Asker, of)
	case verdict == Skip && w.cluster[at].event != wk.event && prunes(a) && !isOthers && w.cluster[at].by == a:
		w.t.Fatalf("%v skips %v, which is for %v", a, at, w.cluster[at])
	}
	if verdict != Try {
		return
	}
	if attempt.Claim.Former != (Asker{}) {
		w.await()
	}
	w.requests = append(w.requests, request{Attempt: attempt, at: at, event: wk.event})
}

// takeEffect does to the cluster what a request asks for.
func (w *world) takeEffect(r request) {
	c, is := r.Claim, w.cluster[r.at]
	switch {
	case !prunes(c.Asker):
	case c.State != Dropped:
		w.cluster[r.at] = object{c.Asker, r.event, r.isLeft}
	case is.by == c.Asker, c.Former.Rule != "" && (is.by.Rule == c.Asker.Rule || is.by.Rule == c.Former.Rule):
		delete(w.cluster, r.at)
	}
}

// land ends a request.
func (w *world) land(i int, o Outcome) {
	r := w.requests[i]
	w.requests = slices.Delete(w.requests, i, i+1)
	if o.State == Done {
		w.takeEffect(r)
		w.deeds[deed{r.Claim.Asker, r.at, r.event}]++
	}
	w.cut(func() {
		a, of := r.Claim.Asker, w.owners[r.at]
		isDeletion := r.Claim.State == Dropped && w.dropping[r.at] && len(of) > 0 && of[0] == a && !r.claim.isGone
		if isDeletion && o.State == Done {
			w.remove(a, r.at)
		}
		if of := w.owners[r.at]; w.dropping[r.at] && len(of) > 1 && !w.isOpen(r.at) {
			w.remove(of[0], r.at)
		}
		if next := r.Settle(o, w.now); next != nil {
			w.offer(*next)
		}
	})
}

// end ends a wave.
func (w *world) end(a Asker, wk *walk) {
	delete(w.walks, a)
	left := wk.Left(w.now)
	if left.Waits+left.Untried > 0 {
		if left.Waits > 0 {
			if left.Due.Before(w.now) {
				w.t.Fatalf("%v waits until %v", a, left.Due)
			}
			w.until[a] = left.Due
		}
		if w.lanes[a] != wk.event {
			delete(w.until, a) // a newer one does not wait
		}
		return
	}
	if w.lanes[a] != wk.event {
		return // what waits is newer
	}
	for at, n := range wk.asks {
		if did := w.deeds[deed{a, at, wk.event}]; did < n && left.Refused == 0 && wk.event > w.restored {
			w.t.Fatalf("%v is done with %v, which was done %d times of %d", a, at, did, n)
		}
	}
	w.cut(func() {
		w.offer(w.table.Forget(a)...)
		delete(w.lanes, a)
	})
}

// dropRule takes a rule out of the manifests.
func (w *world) dropRule(rule string) {
	w.isGone[rule] = true
	for i := range w.requests {
		if w.requests[i].Claim.Asker.Rule == rule {
			w.requests[i].isLeft = true
		}
	}
	w.cut(func() {
		for at, of := range w.owners {
			isHeir := len(of) > 0 && of[0].Rule == rule
			of = slices.DeleteFunc(of, func(a Asker) bool { return a.Rule == rule })
			if w.owners[at] = of; isHeir {
				delete(w.dropping, at)
			}
			if is, ok := w.cluster[at]; ok && len(of) == 0 {
				is.isLeft = true // also if its owner has not applied it yet
				w.cluster[at] = is
			}
			for i := range w.requests { // of an owner before this one, which nobody waits for now
				if w.requests[i].at == at && isHeir && len(of) == 0 {
					w.requests[i].isLeft = true
				}
			}
		}
		for _, a := range everyAsker {
			if a.Rule == rule {
				delete(w.lanes, a)
				delete(w.walks, a)
				delete(w.seen, a)
				delete(w.wants, a)
			}
		}
		maps.DeleteFunc(w.notes, func(id records.NoteID, _ []byte) bool { return id.Rule == rule })
		w.offer(w.table.DropRule(rule)...)
	})
}

// crash ends informd, and starts it with one of the cuts that may be on disk. Each request under
// way takes effect or not.
func (w *world) crash(choice, effects byte) {
	for i, r := range w.requests {
		if effects>>(i%8)&1 != 0 {
			w.takeEffect(r)
		}
	}
	w.requests, w.offers, w.restored = nil, nil, w.lastEvent
	clear(w.walks)
	clear(w.until)
	w.durable = w.cuts[int(choice)%len(w.cuts)].clone()
	w.cuts = nil
	w.table = New(&w.durable)
	w.cut(func() {
		w.restore()
		for at := range w.dropping {
			if of := w.owners[at]; len(of) > 1 {
				w.remove(of[0], at)
			}
		}
	})
	w.await()
	for rule, isGone := range w.isGone {
		if isGone {
			w.dropRule(rule)
		}
	}
	for at, is := range w.cluster {
		if _, ok := w.table.Owner(at); !ok && !is.isLeft {
			w.t.Fatalf("nobody has %v, which is for %v", at, is)
		}
	}
	for _, a := range everyAsker {
		isNew := w.wants[a] > w.seen[a]
		if isNew || slices.Contains(w.table.Pending(a.Rule), a.Key) && w.seen[a] > 0 {
			w.cut(func() { w.lanes[a], w.seen[a] = w.wants[a], w.wants[a] })
		}
	}
}

func (w *world) restore() {
	w.table.Restore(func(yield func(records.Note) bool) {
		for id, value := range maps.Clone(w.notes) {
			if !yield(records.Note{Rule: id.Rule, Name: id.Name, Value: value}) {
				return
			}
		}
	})
}

// check compares the table with the model.
func (w *world) check() {
	for _, at := range everyPlace {
		c, ok := w.table.Owner(at)
		of := w.owners[at]
		if ok != (len(of) > 0) || ok && (c.Asker != of[0] || (c.State == Dropped) != w.dropping[at]) {
			w.t.Fatalf("%v has %v %v; owners are %v", at, c.Asker, c.State, of)
		}
	}
}

// settle has everything succeed until nothing waits.
func (w *world) settle() {
	for range 50 {
		w.now = w.now.Add(10 * time.Minute)
		w.deliverOffers()
		for _, a := range everyAsker {
			for range 20 {
				w.step(a)
				for len(w.requests) > 0 {
					w.land(0, Outcome{State: Done})
				}
			}
		}
		w.check()
		if len(w.lanes) == 0 && len(w.walks) == 0 && len(w.offers) == 0 {
			return
		}
	}
	w.t.Fatalf("%v still wait, %v", w.lanes, w.offers)
}

// run does what some bytes say.
func (w *world) run(input []byte) {
	in := bytes.NewReader(input)
	next := func() byte { b, _ := in.ReadByte(); return b }
	for in.Len() > 0 {
		op := next()
		a := everyAsker[op>>4%4]
		switch op % 16 {
		case 0, 1:
			if w.isGone[a.Rule] || next()%8 != 0 {
				w.want(a, next())
			} else {
				w.want(a, 0)
			}
		case 2, 3, 4, 5, 6, 7:
			w.step(a)
		case 8, 9, 10:
			if len(w.requests) == 0 {
				continue
			}
			states := []State{Done, Done, Done, Waits, Refused, Asked, Done, Waits}
			o := Outcome{State: states[op>>4%8]}
			if o.State == Waits || op>>4%8 == 6 {
				o.Cause, o.Reason = "namespace", "there is none"
			}
			w.land(int(next())%len(w.requests), o)
		case 11:
			w.now = w.now.Add(time.Duration(next()) * time.Second)
		case 12:
			w.crash(next(), next())
		case 13:
			w.deliverOffers()
		case 14:
			w.fail(a, next())
		case 15:
			switch {
			case op>>4 < 2:
				w.dropRule([]string{"q", "p"}[op>>4])
			case op>>4 < 4:
				w.spares = !w.spares
			case op>>4 < 8:
				w.offers = append(w.offers, w.table.Appeared("x")...)
			default:
				w.table.Retry(a)
				delete(w.until, a)
			}
		}
		w.check()
	}
}

// finish ends all requests and waves, and compares the cluster with the wishes of the askers.
func (w *world) finish() {
	w.spares = false
	w.settle()
	for _, a := range everyAsker {
		for _, c := range w.table.Of(a) {
			if (c.State == Asked || c.State == Waits) && !w.failed[a] {
				w.t.Fatalf("%v still waits for %v: %v", a, c.Target, c)
			}
		}
	}
	for _, a := range everyAsker {
		if !w.isGone[a.Rule] {
			w.want(a, w.wishes[w.wants[a]])
		}
	}
	w.settle()
	for _, at := range everyPlace {
		is, exists := w.cluster[at]
		of := w.owners[at]
		switch {
		case len(of) == 0 && exists && !is.isLeft:
			w.t.Fatalf("%v is left for %v", at, is)
		case len(of) > 0 && (is.by != of[0] || is.event != w.wants[of[0]]):
			w.t.Fatalf("%v is for %v; owners are %v", at, is, of)
		}
	}
	for _, a := range everyAsker {
		if !w.isGone[a.Rule] {
			w.want(a, 0)
		}
	}
	w.settle()
	l := &w.table.ledger
	if len(l.claims)+len(l.places)+len(l.rules)+len(l.troubled)+len(w.notes) > 0 || l.counts != [2]int{} {
		w.t.Fatalf("still there: %v %v %v %v %v %v", l.claims, l.places, l.rules, l.troubled, l.counts, w.notes)
	}
}

// However waves, failures, dropped rules and crashes follow each other: the oldest claim that asks
// has the target, and no object is without a claim.
func FuzzTable(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		input := make([]byte, 300)
		for i := range input {
			input[i] = byte(random.Uint32())
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 2000 {
			return
		}
		w := newWorld(t)
		w.run(input)
		w.finish()
	})
}

func TestRandomWaves(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		input := make([]byte, 20+random.IntN(400))
		for i := range input {
			input[i] = byte(random.Uint32())
		}
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
			}()
			w := newWorld(t)
			w.run(input)
			w.finish()
		}()
	}
}
