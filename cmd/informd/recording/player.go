package recording

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
	"github.com/informd/informd/engine/simulate"
)

// player does on a Simulation what a recording says. Until the snapshot is complete the engine is
// stopped, so that the objects in it exist when informd starts.
type player struct {
	plan  *plan.Plan
	log   *slog.Logger
	start time.Time // when the clock starts; zero: with the first line
	came  func(simulate.Event)

	sim     *simulate.Simulation // nil before the first line
	sources map[string]string    // a source of each resource, both by name
	first   time.Time            // the first time in the recording
	state   playing
	// isRecording says that the first line says which selections follow, and that typeListed ends
	// every list.
	isRecording bool
	seen        map[string]bool // objects in a snapshot whose end is not marked

	tally
}

// tally is what a player counts.
type tally struct {
	lines   int
	late    int            // lines whose time is before that of another one before
	unknown map[string]int // objects of resources that no source has, by resource
}

// playing says what the next line is about.
type playing uint8

const (
	inSnapshot playing = iota
	inWatch
	inGap // what follows has happened unseen
)

// play does what a line says, and delivers everything that is due then.
func (p *player) play(l line) error {
	p.lines++
	if err := p.begin(l.Time); err != nil {
		return err
	}
	p.isRecording = p.isRecording || l.Type == typeRecording
	if !p.isRecording && p.state != inWatch && p.endsList(l) {
		if err := p.follow(); err != nil {
			return err
		}
	}
	if err := p.pass(l.Time); err != nil {
		return err
	}
	switch l.Type {
	case typeBookmark, typeRecording:
		return nil
	case typeListed:
		return p.follow()
	case typeError:
		p.sim.Disconnect()
		p.state = inGap
		return nil
	}
	if err := p.change(l); err != nil {
		return err
	}
	return p.advance(0)
}

// begin makes the Simulation. at is the time of the first line; zero if it has none.
func (p *player) begin(at time.Time) (err error) {
	if p.sim != nil {
		return nil
	}
	if p.start.IsZero() {
		p.start = at
	}
	if p.start.IsZero() {
		p.start = time.Now().UTC().Truncate(time.Second)
	}
	p.sources, p.unknown = make(map[string]string), make(map[string]int)
	p.seen = make(map[string]bool)
	for _, s := range p.plan.Sources {
		p.sources[object.ResourceName(s.Resource)] = s.Name
	}
	p.sim, err = simulate.New(p.plan, simulate.Options{
		Start: p.start, Logger: p.log, Stopped: true,
	})
	return err
}

// pass lets the time pass until that of a line.
func (p *player) pass(at time.Time) error {
	if at.IsZero() {
		return nil
	}
	if p.first.IsZero() {
		p.first = at.Add(p.start.Sub(p.sim.Now())) // lines before had no time
	}
	d := p.start.Add(at.Sub(p.first)).Sub(p.sim.Now())
	if d < 0 {
		p.late++
		return nil
	}
	return p.advance(d)
}

// advance lets time pass, by an hour at a time to have few events in memory.
func (p *player) advance(d time.Duration) error {
	for {
		now := min(d, time.Hour)
		if err := p.sim.Advance(now); err != nil {
			return err
		}
		for _, e := range p.sim.Events() {
			p.came(e)
		}
		if d -= now; d <= 0 {
			return nil
		}
	}
}

// endsList reports whether a line cannot belong to a list any more. kubectl prints what exists as
// added, and does not say where that ends.
func (p *player) endsList(l line) bool {
	if l.Type != typeAdded && l.Type != typeObject {
		return true
	}
	if p.state != inSnapshot {
		return false
	}
	id := identify(l.Object)
	key := id.APIVersion + " " + id.Kind + " " + id.Metadata.Namespace + "/" + id.Metadata.Name
	if p.seen[key] {
		return true
	}
	p.seen[key] = true
	return false
}

// follow ends a list: informd starts, or has listed again.
func (p *player) follow() error {
	var err error
	switch p.state {
	case inSnapshot:
		err = p.sim.Run(simulate.Resumption{})
	case inGap:
		err = p.sim.Relist(true)
	}
	if err != nil {
		return err
	}
	p.state, p.seen = inWatch, nil
	return p.advance(0)
}

// end plays the end of the recording: until then if it is not zero, or a while more.
func (p *player) end(until time.Time, after time.Duration) error {
	if err := p.begin(time.Time{}); err != nil { // the recording may be empty
		return err
	}
	if p.state != inWatch {
		if err := p.follow(); err != nil {
			return err
		}
	}
	if !until.IsZero() {
		after = until.Sub(p.sim.Now())
	}
	if after > 0 {
		if err := p.advance(after); err != nil {
			return err
		}
	}
	return p.sim.Close()
}

// change applies or deletes the object of a line.
func (p *player) change(l line) error {
	source, ok := p.source(&l)
	if !ok {
		p.unknown[l.Resource]++
		return nil
	}
	if l.Type != typeDeleted {
		return p.sim.Apply(source, l.Object)
	}
	id := identify(l.Object)
	if _, ok := p.sim.Get(source, id.Metadata.Namespace, id.Metadata.Name); !ok {
		return nil // it began and ended before the recording, or between two
	}
	return p.sim.DeleteAs(source, l.Object)
}

// source returns a source that has the resource of a line's object. It fills in the line's
// resource.
func (p *player) source(l *line) (name string, ok bool) {
	if l.Resource == "" {
		id := identify(l.Object)
		kind := schema.FromAPIVersionAndKind(id.APIVersion, id.Kind)
		guesses := guess(kind)
		for _, r := range guesses {
			if name, ok = p.sources[r]; ok {
				break
			}
		}
		l.Resource = guesses[0]
	} else {
		name, ok = p.sources[l.Resource]
	}
	return name, ok
}

// guess returns the names that the resource of a kind may have, the likeliest first. Nothing but an
// API server knows.
func guess(kind schema.GroupVersionKind) (names []string) {
	plural, singular := meta.UnsafeGuessKindToResource(kind)
	add := func(r schema.GroupVersionResource) {
		if name := object.ResourceName(r); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add(plural)
	for _, ending := range []string{"s", "es", ""} { // gateways, for one, is not as it is guessed
		r := singular
		r.Resource += ending
		add(r)
	}
	return names
}

// identified is what an object says about itself.
type identified struct {
	APIVersion, Kind string
	Metadata         struct{ Namespace, Name string }
}

func identify(text []byte) (id identified) {
	_ = json.Unmarshal(text, &id) // what cannot be read stays empty
	return id
}

// missing returns the selections of the plan's sources that a recording does not have.
func missing(p *plan.Plan, recorded []selection) (out []string) {
	for _, s := range p.Sources {
		for _, i := range s.Informers {
			wanted := newSelection(i.Selection)
			if !slices.ContainsFunc(recorded, func(r selection) bool { return r.covers(wanted) }) {
				out = append(out, "source "+s.Name+": the recording may lack some of "+
					wanted.String()+"; it has "+recordedOf(recorded, wanted.Resource))
			}
		}
	}
	return out
}

// recordedOf lists what a recording has of a resource.
func recordedOf(recorded []selection, resource string) string {
	var all []string
	for _, r := range recorded {
		if r.Resource == resource {
			all = append(all, r.String())
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}
