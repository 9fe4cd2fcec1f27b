package acting

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/informd/informd/engine/action"
	"github.com/informd/informd/engine/targets"
	"github.com/informd/informd/plugins/handler"
)

// Bounds of what an error about several targets quotes.
const (
	maxReasons = 3    // of distinct reasons
	maxNames   = 3    // of targets with the same reason
	maxSeen    = 4096 // targets of which failures knows that they have failed
	minAdvice  = 40   // bytes of advice at the end of several reasons that is given once
)

// failures collects the errors of a wave: of actions that have failed in it, and of those that it
// has passed over because they had failed before.
type failures struct {
	count   int                         // of targets, prunes and Events
	others  int                         // of prunes and Events among them
	theirs  int                         // those because an object is somebody else's, or is going
	seen    map[targets.Target]struct{} // those that have failed, at most maxSeen
	all     []reason                    // the first distinct ones, at most maxReasons
	quotes  bool                        // one of all may quote an object
	again   error                       // one that is worth another try
	final   error                       // one that is not
	stale   error                       // the first conflict
	atStep  string                      // the label of the step of the first
	waiting []one                       // those that have failed in this round and are tried again

	troubles action.Troubles
	trouble  error // the first that says that the API server is in trouble; it ends the wave
	stopped  error // why a request was given up, if the wave is to stop
	refused  error // why a piece may not be performed; it may quote an object
}

// reason is why targets have failed.
type reason struct {
	text  string   // or "", if names have the whole errors
	names []string // of the first targets, as errors begin, at most maxNames
	label string   // that all names begin with
	count int      // of targets
}

func (f *failures) add(o one, isTheirs bool, err error) {
	f.sort(err)
	if _, isSeen := f.seen[o.target]; isSeen {
		return // another of its actions has failed
	}
	if len(f.seen) < maxSeen {
		if f.seen == nil {
			f.seen = make(map[targets.Target]struct{})
		}
		f.seen[o.target] = struct{}{}
	}
	if f.count++; f.count == 1 {
		f.atStep = o.label
	}
	if o.target.Subresource == pruneTarget || o.target.Subresource == eventTarget {
		f.others++
	}
	if isTheirs || errors.Is(err, errDeleting) { // nothing that the rule applies is at stake
		f.theirs++
	}
	f.quote(o, err)
}

// sort notes what is to become of the delivery after an error.
func (f *failures) sort(err error) {
	switch {
	case errors.Is(err, handler.ErrReject):
		f.final = err
	case f.stale == nil && errors.Is(err, action.ErrConflict):
		f.stale = err
	case f.again == nil:
		f.again = err
	}
}

// quote notes the text of an error.
func (f *failures) quote(o one, err error) {
	name, text := o.name(), err.Error()
	if rest, ok := strings.CutPrefix(text, name+": "); ok {
		text = rest
	} else {
		name, text = text, ""
	}
	at := slices.IndexFunc(f.all, func(r reason) bool {
		return r.text == text && r.label == o.label && (text != "" || r.names[0] == name)
	})
	switch {
	case at >= 0:
		f.all[at].count++
		if text == "" || len(f.all[at].names) == maxNames {
			return
		}
		f.all[at].names = append(f.all[at].names, strings.TrimPrefix(name, o.label+": "))
	case len(f.all) < maxReasons:
		f.all = append(f.all, reason{text: text, names: []string{name}, label: o.label, count: 1})
	default:
		return
	}
	f.quotes = f.quotes || action.Quotes(err)
}

// isTrouble reports whether other requests would most likely fail as well, now that one has ended
// with err. claim is as it was before.
func (f *failures) isTrouble(err error, claim targets.Claim) bool {
	isRepeat := claim.State == targets.Waits && claim.Cause == string(action.CauseBusy)
	return f.troubles.Add(err, isRepeat)
}

// of returns one error about what has failed of n targets. It is final only if all errors are, and a
// conflict if one is.
func (f *failures) of(n int) error {
	is := cmp.Or(f.trouble, f.stale, f.again, f.final)
	if f.count <= 1 {
		return is
	}
	text := fmt.Sprintf("%d of %d targets failed: ", f.count, max(f.count, n))
	if f.others > 0 {
		text = fmt.Sprintf("%d actions failed: ", f.count)
	}
	parts, more := make([]string, len(f.all)), f.count
	for i, r := range f.all {
		parts[i], more = r.said(), more-r.count
	}
	text += strings.Join(givenOnce(parts, f.all), "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return &several{text, is}
}

// said returns the reason with the names of its targets.
func (r reason) said() string {
	text := strings.Join(r.names, ", ")
	if r.text != "" {
		text += ": " + r.text
	}
	return text
}

// givenOnce takes advice away from the end of all but the last of several texts that give it. It
// adds how many more targets have failed for the same reason.
func givenOnce(parts []string, of []reason) []string {
	for i, part := range parts {
		if at := strings.LastIndex(part, ": "); at >= 0 && len(part)-at >= minAdvice {
			givesIt := func(later string) bool { return strings.HasSuffix(later, part[at:]) }
			if slices.ContainsFunc(parts[i+1:], givesIt) {
				parts[i] = part[:at]
			}
		}
	}
	for i, r := range of {
		if more := r.count - len(r.names); more > 0 {
			parts[i] += fmt.Sprintf(" (and %d more like this)", more)
		}
	}
	return parts
}

// several is an error about several actions. It is what one of them is.
type several struct {
	text string
	is   error
}

func (s *several) Error() string { return s.text }
func (s *several) Unwrap() error { return s.is }

// Bounds of what failing remembers. Beyond them, it forgets something.
const (
	maxFailing   = 1024 // source objects
	maxFailingOf = 16   // errors of one
)

// failing remembers the errors of targets that wait or were refused, in full and with what they
// quote of objects: the table keeps less. It is safe for concurrent use. Its zero value is ready.
type failing struct {
	mu  sync.Mutex                                 // a leaf
	all map[targets.Asker]map[targets.Target]error // guarded by mu
}

// add remembers why a target of a source object failed last.
func (f *failing) add(a targets.Asker, at targets.Target, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = make(map[targets.Asker]map[targets.Target]error)
	}
	of := f.all[a]
	if of == nil {
		for other := range f.all {
			if len(f.all) < maxFailing {
				break
			}
			delete(f.all, other)
		}
		of = make(map[targets.Target]error)
		f.all[a] = of
	}
	if _, ok := of[at]; ok || len(of) < maxFailingOf {
		of[at] = err
	}
}

// of returns why an action failed earlier, of which claim is the target's.
func (f *failing) of(a targets.Asker, o one, claim targets.Claim) error {
	f.mu.Lock()
	err := f.all[a][o.target]
	f.mu.Unlock()
	if err != nil {
		return err
	}
	text := claim.Reason
	if text == "" {
		cause := cmp.Or(claim.Cause, "it is not known why")
		text = fmt.Sprintf("%s: it failed before: %s", o.name(), cause)
	}
	if claim.State == targets.Refused {
		return refusal(text)
	}
	return errors.New(text)
}

// refusal is an error that is final. Its text says so itself, if it is known.
type refusal string

func (r refusal) Error() string { return string(r) }
func (refusal) Unwrap() error   { return handler.ErrReject }

// remove forgets a target that is done.
func (f *failing) remove(a targets.Asker, at targets.Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all[a], at)
}

// forget forgets a source object.
func (f *failing) forget(a targets.Asker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, a)
}
