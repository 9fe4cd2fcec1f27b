package serve

import (
	"errors"
	"fmt"
	"runtime"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/wire"
	"github.com/informd/informd/plugins/handlerpb"
)

// answer returns what Handle returned as the protocol has it; nil is done without actions. An
// answer that the protocol does not allow (an unknown verb, too many actions) becomes a reject,
// because a retry would not mend the handler.
func answer(a handler.Answer, err error) *handlerpb.Answer {
	switch {
	case err != nil && errors.Is(err, handler.ErrReject):
		return reject(err.Error())
	case err != nil:
		after, _ := handler.RetryDelay(err)
		r := &handlerpb.Retry{Reason: wire.Text(err.Error(), handlerpb.MaxReasonBytes)}
		if after > 0 {
			r.After = durationpb.New(after)
		}
		return &handlerpb.Answer{Result: &handlerpb.Answer_Retry{Retry: r}}
	case len(a.Actions) == 0:
		return nil
	case len(a.Actions) > handlerpb.MaxActions:
		return reject(fmt.Sprintf("the handler's answer has %d actions; at most %d are allowed",
			len(a.Actions), handlerpb.MaxActions))
	}
	done := &handlerpb.Done{}
	for _, action := range a.Actions {
		p, err := wire.FromAction(action)
		if err != nil {
			return reject(err.Error())
		}
		done.Actions = append(done.Actions, p)
	}
	out := &handlerpb.Answer{Result: &handlerpb.Answer_Done{Done: done}}
	if proto.Size(out) > maxAnswer {
		return reject(fmt.Sprintf(
			"the handler's answer is larger than the %d bytes that are allowed", maxAnswer))
	}
	return out
}

// maxAnswer leaves room in a message for other answers.
const maxAnswer = handlerpb.MaxResponseBytes / 2

func retry(reason string) *handlerpb.Answer {
	return &handlerpb.Answer{Result: &handlerpb.Answer_Retry{
		Retry: &handlerpb.Retry{Reason: reason},
	}}
}

func reject(reason string) *handlerpb.Answer {
	return &handlerpb.Answer{Result: &handlerpb.Answer_Reject{
		Reject: &handlerpb.Reject{Reason: wire.Text(reason, handlerpb.MaxReasonBytes)},
	}}
}

// panicReason says that Handle panicked, without anything of the event: a runtime error's text
// consists of numbers and types, but any other value could contain anything.
func panicReason(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return wire.Text("panic: "+err.Error(), handlerpb.MaxReasonBytes)
	}
	return fmt.Sprintf("panic: a value of type %T; the handler's log has it", v)
}
