package serve

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// answer puts what Handle returned into the protocol's words; nil is done without actions. What cannot be expressed (a
// verb that does not exist, too many actions) is a fault of the handler that a retry would not mend: a reject.
func answer(a handler.Answer, err error) *handlerpb.Answer {
	switch {
	case err != nil && errors.Is(err, handler.ErrReject):
		return reject(err.Error())
	case err != nil:
		after, _ := handler.RetryDelay(err)
		r := &handlerpb.Retry{Reason: bounded(err.Error(), handlerpb.MaxReasonBytes)}
		if after > 0 {
			r.After = durationpb.New(after)
		}
		return &handlerpb.Answer{Result: &handlerpb.Answer_Retry{Retry: r}}
	case len(a.Actions) == 0:
		return nil
	case len(a.Actions) > handlerpb.MaxActions:
		return reject(fmt.Sprintf("the handler's answer has %d actions; at most %d are allowed", len(a.Actions), handlerpb.MaxActions))
	}
	done := &handlerpb.Done{}
	for _, action := range a.Actions {
		p, err := actionProto(action)
		if err != nil {
			return reject(err.Error())
		}
		done.Actions = append(done.Actions, p)
	}
	out := &handlerpb.Answer{Result: &handlerpb.Answer_Done{Done: done}}
	if proto.Size(out) > maxAnswer {
		return reject(fmt.Sprintf("the handler's answer is larger than the %d bytes that are allowed", maxAnswer))
	}
	return out
}

// maxAnswer leaves room in a message for what is sent along.
const maxAnswer = handlerpb.MaxResponseBytes / 2

func retry(reason string) *handlerpb.Answer {
	return &handlerpb.Answer{Result: &handlerpb.Answer_Retry{Retry: &handlerpb.Retry{Reason: reason}}}
}

func reject(reason string) *handlerpb.Answer {
	return &handlerpb.Answer{Result: &handlerpb.Answer_Reject{
		Reject: &handlerpb.Reject{Reason: bounded(reason, handlerpb.MaxReasonBytes)},
	}}
}

func actionProto(a handler.Action) (*handlerpb.Action, error) {
	target := &handlerpb.Target{
		Resource: &handlerpb.Resource{
			Group:    bounded(a.Resource.Group, maxIdent),
			Version:  bounded(a.Resource.Version, maxIdent),
			Resource: bounded(a.Resource.Resource, maxIdent),
		},
		Namespace:       bounded(a.Namespace, maxIdent),
		Name:            bounded(a.Name, maxIdent),
		Uid:             bounded(a.UID, maxIdent),
		ResourceVersion: bounded(a.ResourceVersion, maxIdent),
	}
	switch a.Verb {
	case handler.ActionApply:
		apply := &handlerpb.Apply{Target: target, Object: a.Object, Subresource: bounded(a.Subresource, maxIdent)}
		return &handlerpb.Action{Action: &handlerpb.Action_Apply{Apply: apply}}, nil
	case handler.ActionPatch:
		patch := &handlerpb.Patch{
			Target: target, Type: bounded(a.PatchType, maxIdent), Patch: a.Patch, Subresource: bounded(a.Subresource, maxIdent),
		}
		return &handlerpb.Action{Action: &handlerpb.Action_Patch{Patch: patch}}, nil
	case handler.ActionCreate:
		return &handlerpb.Action{Action: &handlerpb.Action_Create{Create: &handlerpb.Create{Target: target, Object: a.Object}}}, nil
	case handler.ActionDelete:
		return &handlerpb.Action{Action: &handlerpb.Action_Delete{Delete: &handlerpb.Delete{Target: target}}}, nil
	case handler.ActionEvent:
		event := &handlerpb.EmitEvent{
			Target: target, Reason: bounded(a.Reason, 128), Message: bounded(a.Message, 1024), Warning: a.Warning,
		}
		return &handlerpb.Action{Action: &handlerpb.Action_Event{Event: event}}, nil
	}
	return nil, fmt.Errorf("the handler's answer has an action with the unknown verb %q", bounded(a.Verb, maxIdent))
}

// maxIdent is longer than any name in Kubernetes.
const maxIdent = 512

// panicReason says that Handle panicked, in words that carry nothing of the event: a runtime error's text is made of
// numbers and types, any other value could hold anything.
func panicReason(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return bounded("panic: "+err.Error(), handlerpb.MaxReasonBytes)
	}
	return fmt.Sprintf("panic: a value of type %T; the handler's log has it", v)
}

// bounded makes s valid UTF-8, as protobuf wants its strings, of at most n bytes.
func bounded(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
