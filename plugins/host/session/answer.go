package session

import (
	"errors"
	"fmt"
	"strings"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

// answerResult translates a handler's answer. Everything in it comes from another process and is
// bounded here.
func answerResult(a *handlerpb.Answer) (handler.Answer, error) {
	switch r := a.GetResult().(type) {
	case *handlerpb.Answer_Done:
		return doneResult(r.Done.GetActions())
	case *handlerpb.Answer_Reject:
		return handler.Answer{}, handler.Reject(reason(r.Reject.GetReason(), "no reason given"))
	case *handlerpb.Answer_Retry:
		err := reason(r.Retry.GetReason(), "the handler asked for a retry")
		if after := r.Retry.GetAfter(); after != nil {
			err = handler.RetryAfter(min(after.AsDuration(), maxRetryAfter), err)
		}
		return handler.Answer{}, err
	}
	return handler.Answer{}, errors.New("the handler's answer says neither done, retry nor reject")
}

// maxRetryAfter is the bound that handler.RetryAfter documents.
const maxRetryAfter = 24 * 60 * 60 * 1e9

// reason returns the handler's reason as an error, or otherwise if there is none. It strips the
// words that handler.Reject puts before a reason, because ours adds them again.
func reason(said, otherwise string) error {
	said = strings.TrimPrefix(said, handler.ErrReject.Error()+": ")
	if said = printable.Line(said, handlerpb.MaxReasonBytes); said == "" {
		said = otherwise
	}
	return errors.New(said)
}

func doneResult(actions []*handlerpb.Action) (handler.Answer, error) {
	if len(actions) > handlerpb.MaxActions {
		err := fmt.Errorf("the answer has %d actions; at most %d are allowed",
			len(actions), handlerpb.MaxActions)
		return handler.Answer{}, handler.Reject(err)
	}
	var out []handler.Action
	for i, p := range actions {
		a, ok := wire.ToAction(p)
		if !ok {
			err := fmt.Errorf("actions[%d] of the answer is of a kind that this informd "+
				"does not know", i)
			return handler.Answer{}, handler.Reject(err)
		}
		a.Reason = printable.Line(a.Reason, wire.MaxEventReason)
		a.Message = printable.Line(a.Message, wire.MaxEventMessage)
		out = append(out, a)
	}
	return handler.Answer{Actions: out}, nil
}
