package host

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// answerResult turns a handler's answer into what Handle returns. Everything in it comes from another process and is
// bounded here.
func answerResult(a *handlerpb.Answer) (handler.Answer, error) {
	switch r := a.GetResult().(type) {
	case *handlerpb.Answer_Done:
		return doneResult(r.Done.GetActions())
	case *handlerpb.Answer_Reject:
		return handler.Answer{}, handler.Reject(said(r.Reject.GetReason(), "no reason given"))
	case *handlerpb.Answer_Retry:
		err := said(r.Retry.GetReason(), "the handler asked for a retry")
		if after := r.Retry.GetAfter(); after != nil {
			err = handler.RetryAfter(min(after.AsDuration(), maxRetryAfter), err)
		}
		return handler.Answer{}, err
	}
	return handler.Answer{}, errors.New("the handler's answer says neither done, retry nor reject")
}

// maxRetryAfter is as handler.RetryAfter documents it.
const maxRetryAfter = 24 * 60 * 60 * 1e9

// said is what a handler gave as a reason, without the words that a handler.Reject of the other side put before it.
func said(reason, otherwise string) error {
	reason = strings.TrimPrefix(reason, handler.ErrReject.Error()+": ")
	if reason = printable(reason, handlerpb.MaxReasonBytes); reason == "" {
		reason = otherwise
	}
	return errors.New(reason)
}

func doneResult(actions []*handlerpb.Action) (handler.Answer, error) {
	if len(actions) > handlerpb.MaxActions {
		return handler.Answer{}, handler.Reject(fmt.Errorf("the answer has %d actions; at most %d are allowed", len(actions), handlerpb.MaxActions))
	}
	var out []handler.Action
	for i, p := range actions {
		a, ok := action(p)
		if !ok {
			return handler.Answer{}, handler.Reject(fmt.Errorf("action %d of the answer is of a kind that this informd does not know", i+1))
		}
		out = append(out, a)
	}
	return handler.Answer{Actions: out}, nil
}

func action(p *handlerpb.Action) (handler.Action, bool) {
	var a handler.Action
	var target *handlerpb.Target
	switch p := p.GetAction().(type) {
	case *handlerpb.Action_Apply:
		a, target = handler.Action{Verb: handler.ActionApply, Object: p.Apply.GetObject()}, p.Apply.GetTarget()
		a.Subresource = p.Apply.GetSubresource()
	case *handlerpb.Action_Patch:
		a = handler.Action{Verb: handler.ActionPatch, PatchType: p.Patch.GetType(), Patch: p.Patch.GetPatch()}
		a.Subresource, target = p.Patch.GetSubresource(), p.Patch.GetTarget()
	case *handlerpb.Action_Create:
		a, target = handler.Action{Verb: handler.ActionCreate, Object: p.Create.GetObject()}, p.Create.GetTarget()
	case *handlerpb.Action_Delete:
		a, target = handler.Action{Verb: handler.ActionDelete}, p.Delete.GetTarget()
	case *handlerpb.Action_Event:
		a = handler.Action{
			Verb:    handler.ActionEvent,
			Reason:  printable(p.Event.GetReason(), 128),
			Message: printable(p.Event.GetMessage(), 1024),
			Warning: p.Event.GetWarning(),
		}
		target = p.Event.GetTarget()
	default:
		return handler.Action{}, false
	}
	a.Resource = handler.Resource{
		Group:    target.GetResource().GetGroup(),
		Version:  target.GetResource().GetVersion(),
		Resource: target.GetResource().GetResource(),
	}
	a.Namespace, a.Name = target.GetNamespace(), target.GetName()
	a.UID, a.ResourceVersion = target.GetUid(), target.GetResourceVersion()
	return a, true
}

// printable makes text from another process fit for a log or a terminal: at most n bytes of valid UTF-8, with control
// characters, line breaks and those that change the direction of writing among them, as spaces.
func printable(s string, n int) string {
	cut := len(s) > n
	if cut {
		s = s[:n]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.TrimSpace(s)
	if cut {
		s += "…"
	}
	return s
}
