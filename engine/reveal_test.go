package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/informd/informd/plugins/handler"
)

const revealing = `, payload: '[object.data.size, first(lookup("secrets.byName", object.metadata.name)).data.value]'`

// A payload may hold text of secrets that a rule looked up. None of it reaches the disk, and the
// payload is remade when it is read back.
func TestLookedUpSecretsAreNotPersisted(t *testing.T) {
	t.Parallel()
	const value = "c2VjcmV0IG9mIHRoZSB0ZXN0"
	for _, delivery := range []string{"latest", "every"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			l.putSecret("a", value)
			l.put("a", "1")
			manifests := strings.Replace(attachSources, "attempts: 2", "attempts: 0", 1) + aRule("r", revealing+", delivery: "+delivery)
			before := &teller{answer: func(handler.Event) error { return errors.New("not " + value) }}
			l.run(manifests, before, n(1))
			l.expect(before.told[:1], `r synced a ["1","`+value+`"]`)
			l.nowhere(value)
			l.putSecret("a", "another")
			h := new(teller)
			l.run(manifests, h, n(1))
			if again, repeat := strings.CutPrefix(h.told[0], `r synced a ["1","another"] #`); !repeat {
				t.Errorf("told %q, %q", h.told, again)
			}
		})
	}
}

// The same holds for dead letters, and for their reasons.
func TestLettersHoldNoSecrets(t *testing.T) {
	t.Parallel()
	const value = "c2VjcmV0IG9mIHRoZSB0ZXN0"
	l := newLife(t)
	l.putSecret("a", value)
	l.put("a", "1")
	manifests := attachSources + aRule("r", revealing)
	isDead := func(e *Engine, _ []string) bool { return e.Status().DeadLetters.Letters == 1 }
	l.run(manifests, &teller{answer: func(handler.Event) error { return handler.Reject(errors.New("not " + value)) }}, isDead)
	l.nowhere(value)
	l.putSecret("a", "another")
	retried := false
	l.expect(l.run(manifests, new(teller), func(e *Engine, told []string) bool {
		letters, _ := e.Letters()
		for _, x := range letters {
			if x.Reason == "" {
				t.Error("no reason")
			}
			retried = retried || e.RetryLetter(x.ID) == nil
		}
		return retried && len(told) > 0
	}), `r synced a ["1","another"] #2`)
}

// The same holds for the items of a group, in a delivery that waits and in a dead letter.
func TestItemsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	for _, isDead := range []bool{false, true} {
		t.Run(fmt.Sprintf("dead %v", isDead), func(t *testing.T) {
			t.Parallel()
			values := map[string]string{"a": "c2VjcmV0IG9mIHRoZSB0ZXN0", "b": "YW5vdGhlciBvbmUgb2YgaXQ"}
			l := newLife(t)
			for name, value := range values {
				l.putSecret(name, value)
				l.put(name, "1")
			}
			manifests := strings.Replace(attachSources, "attempts: 2", "attempts: 0", 1) +
				aRule("r", revealing+`, group: {by: '"all"', wait: 100ms}`)
			var got []handler.Event
			answer := func(why error) func(handler.Event) error {
				return func(ev handler.Event) error {
					got = append(got, ev)
					return why
				}
			}
			why := errors.New("not " + values["a"])
			met := n(1)
			if isDead {
				why = handler.Reject(why)
				met = func(e *Engine, _ []string) bool { return e.Status().DeadLetters.Letters == 1 }
			}
			l.run(manifests, &teller{answer: answer(why)}, met)
			for name, value := range values {
				l.nowhere(value)
				l.putSecret(name, "new "+name)
			}
			got = nil
			retried := !isDead
			l.run(manifests, &teller{answer: answer(nil)}, func(e *Engine, told []string) bool {
				letters, _ := e.Letters()
				for _, x := range letters {
					retried = retried || e.RetryLetter(x.ID) == nil
				}
				return retried && len(told) > 0
			})
			if len(got) == 0 || len(got[0].Items) != 2 {
				t.Fatalf("got %d events, the first with %+v", len(got), got)
			}
			for _, item := range got[0].Items {
				if want := `["1","new ` + item.Name + `"]`; string(item.Payload) != want {
					t.Errorf("the payload of item %s is %s, want %s", item.Name, item.Payload, want)
				}
			}
		})
	}
}

// One place decides whether a reason may quote a secret: for the disk, for lists of dead letters,
// for the status and for the log.
func TestConfidentialityIsDecidedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		manifests string
		want      bool
	}{
		"nothing of secrets": {attachSources + aRule("r", ""), false},
		"read":               {strings.Replace(attachSources, "builtin: log", "builtin: log, access: {read: [secrets]}", 1) + aRule("r", ""), true},
		"attached":           {attachSources + aRule("r", `, attach: {all: 'lookup("secrets.byName", "a")'}`), true},
		"in a payload":       {attachSources + aRule("r", revealing), true},
		"in when":            {attachSources + aRule("r", `, when: 'len(lookup("secrets.byName", "a")) == 0'`), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			if c.want {
				l.unsaid = "hunter2"
			}
			l.put("a", "1")
			l.put("b", "1")
			said := func(e *Engine, _ []string) bool {
				s := e.Status()
				return s.DeadLetters.Letters == 1 && strings.Contains(s.Rules[0].Failure, "failed at")
			}
			l.run(c.manifests, &teller{answer: func(ev handler.Event) error {
				if ev.Name == "a" {
					return handler.Reject(errors.New("not hunter2"))
				}
				return handler.RetryAfter(time.Hour, errors.New("not hunter2"))
			}}, func(e *Engine, told []string) bool {
				if !said(e, told) {
					return false
				}
				letters, _ := e.Letters()
				if letters[0].Confidential != c.want {
					t.Errorf("the letter is confidential: %v", letters[0].Confidential)
				}
				if shown := e.Status().Rules[0].Failure; strings.Contains(shown, "hunter2") == c.want {
					t.Errorf("the status shows %q", shown)
				}
				return true
			})
			l.run(c.manifests, new(teller), func(e *Engine, _ []string) bool {
				letters, _ := e.Letters()
				if len(letters) != 1 {
					return false
				}
				if letters[0].Confidential != c.want || strings.Contains(letters[0].Reason, "hunter2") == c.want {
					t.Errorf("after a restart the letter is confidential: %v, with reason %q", letters[0].Confidential, letters[0].Reason)
				}
				return true
			})
		})
	}
}

// A handler that reads secrets, or has them attached, may quote them in the reason of a rejection.
func TestReasonsMayQuoteSecrets(t *testing.T) {
	t.Parallel()
	const value = "c2VjcmV0IG9mIHRoZSB0ZXN0"
	for name, manifests := range map[string]string{
		"read":     strings.Replace(attachSources, "builtin: log", "builtin: log, access: {read: [secrets]}", 1) + aRule("r", ""),
		"attached": attachSources + aRule("r", `, attach: {all: 'lookup("secrets.byName", "a")'}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLife(t)
			l.put("a", "1")
			l.run(manifests, &teller{answer: func(handler.Event) error { return handler.Reject(errors.New("not " + value)) }},
				func(e *Engine, _ []string) bool { return e.Status().DeadLetters.Letters == 1 })
			l.nowhere(value)
			l.run(manifests, new(teller), func(e *Engine, _ []string) bool {
				letters, _ := e.Letters()
				return len(letters) == 1 && strings.Contains(letters[0].Reason, "not kept") && !letters[0].Quotes() && sizeIn(letters[0].Event().Object) == "1"
			})
		})
	}
}

// What informd itself says quotes nothing, so it is shown, although the handler sees secrets.
func TestInformdsOwnReasonsAreShown(t *testing.T) {
	t.Parallel()
	l := newLife(t)
	l.put("a", "1")
	manifests := strings.Replace(attachSources, "builtin: log", "builtin: log, access: {read: [secrets]}", 1) + aRule("r", ", payload: object.data.size > 5")
	for _, when := range []string{"at once", "after a restart"} {
		l.run(manifests, new(teller), func(e *Engine, _ []string) bool {
			letters, _ := e.Letters()
			if len(letters) != 1 {
				return false
			}
			if x := letters[0]; !x.Confidential || x.Quotes() || !strings.Contains(x.Reason, "payload: cannot compare string with int") {
				t.Errorf("%s the letter is confidential: %v, quotes: %v, reason %q", when, x.Confidential, x.Quotes(), x.Reason)
			}
			return true
		})
	}
}
