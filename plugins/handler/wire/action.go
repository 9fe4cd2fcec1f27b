package wire

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
)

// Bounds of an action's texts, in bytes. Longer ones are cut.
const (
	maxIdentifier = 512 // longer than any name in Kubernetes
	// MaxEventReason and MaxEventMessage bound the reason and message of a Kubernetes Event.
	MaxEventReason  = 128
	MaxEventMessage = 1024
)

// FromAction returns an action as the protocol has it. The error says that its verb is unknown.
func FromAction(a handler.Action) (*handlerpb.Action, error) {
	target := &handlerpb.Target{
		Resource: &handlerpb.Resource{
			Group:    Text(a.Resource.Group, maxIdentifier),
			Version:  Text(a.Resource.Version, maxIdentifier),
			Resource: Text(a.Resource.Resource, maxIdentifier),
		},
		Namespace:       Text(a.Namespace, maxIdentifier),
		Name:            Text(a.Name, maxIdentifier),
		Uid:             Text(a.UID, maxIdentifier),
		ResourceVersion: Text(a.ResourceVersion, maxIdentifier),
	}
	subresource := Text(a.Subresource, maxIdentifier)
	switch a.Verb {
	case handler.ActionApply:
		return &handlerpb.Action{Action: &handlerpb.Action_Apply{
			Apply: &handlerpb.Apply{Target: target, Object: a.Object, Subresource: subresource},
		}}, nil
	case handler.ActionPatch:
		return &handlerpb.Action{Action: &handlerpb.Action_Patch{Patch: &handlerpb.Patch{
			Target: target, Type: Text(a.PatchType, maxIdentifier), Patch: a.Patch,
			Subresource: subresource,
		}}}, nil
	case handler.ActionCreate:
		return &handlerpb.Action{Action: &handlerpb.Action_Create{
			Create: &handlerpb.Create{Target: target, Object: a.Object},
		}}, nil
	case handler.ActionDelete:
		return &handlerpb.Action{Action: &handlerpb.Action_Delete{
			Delete: &handlerpb.Delete{Target: target},
		}}, nil
	case handler.ActionEvent:
		return &handlerpb.Action{Action: &handlerpb.Action_Event{Event: &handlerpb.EmitEvent{
			Target: target, Reason: Text(a.Reason, MaxEventReason),
			Message: Text(a.Message, MaxEventMessage), Warning: a.Warning,
		}}}, nil
	}
	return nil, fmt.Errorf("the handler's answer has an action with the unknown verb %q",
		Text(a.Verb, maxIdentifier))
}

// ToAction returns the action that a message asks for, as its sender wrote it. ok is false if this
// version of the protocol does not know its kind.
func ToAction(p *handlerpb.Action) (a handler.Action, ok bool) {
	var target *handlerpb.Target
	switch p := p.GetAction().(type) {
	case *handlerpb.Action_Apply:
		a = handler.Action{
			Verb: handler.ActionApply, Object: p.Apply.GetObject(),
			Subresource: p.Apply.GetSubresource(),
		}
		target = p.Apply.GetTarget()
	case *handlerpb.Action_Patch:
		a = handler.Action{
			Verb: handler.ActionPatch, PatchType: p.Patch.GetType(), Patch: p.Patch.GetPatch(),
			Subresource: p.Patch.GetSubresource(),
		}
		target = p.Patch.GetTarget()
	case *handlerpb.Action_Create:
		a = handler.Action{Verb: handler.ActionCreate, Object: p.Create.GetObject()}
		target = p.Create.GetTarget()
	case *handlerpb.Action_Delete:
		a, target = handler.Action{Verb: handler.ActionDelete}, p.Delete.GetTarget()
	case *handlerpb.Action_Event:
		a = handler.Action{
			Verb: handler.ActionEvent, Reason: p.Event.GetReason(),
			Message: p.Event.GetMessage(), Warning: p.Event.GetWarning(),
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

// Text returns s as protobuf wants its strings: valid UTF-8, and at most n bytes of it.
func Text(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
