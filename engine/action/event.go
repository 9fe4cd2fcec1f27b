package action

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/informd/informd/internal/printable"
	"github.com/informd/informd/plugins/handler"
)

// maxEventMessage is the bound of events.k8s.io, in bytes.
const maxEventMessage = 1024

const maxName = 253 // bytes, as in Kubernetes

// controller is the name of the reporter in Events, beside the rule.
const controller = "informd.dev"

// events is the resource that stores Events, also those of events.k8s.io.
var events = handler.Resource{Version: "v1", Resource: "events"}

// record performs an event. A repeat finds the Event as long as the API server keeps it: an hour by
// default.
func (t task) record(ctx context.Context, kind kind) (outcome, error) {
	uid := t.action.UID
	switch {
	case uid != "":
	case t.namesEventObject():
		uid = t.event.UID // even if the object is gone
	default:
		there, f := t.get(ctx)
		if f != nil {
			return t.failed(outcome{}, f)
		}
		if uid = there.UID; uid == "" {
			return outcome{result: Gone}, nil
		}
	}
	event := t.about(kind, uid, metav1.Now())
	body, err := json.Marshal(event)
	if err != nil {
		return outcome{}, handler.Reject(fmt.Errorf("the Event: %w", err))
	}
	target := handler.Action{Resource: events, Namespace: event.Namespace, Name: event.Name}
	o, f := t.post(ctx, target, body)
	if f != nil && f.reason == exists {
		o.result = Unchanged
		return o, nil
	}
	if f == nil {
		o.result = Changed
	}
	return t.posted(o, f)
}

// about returns the Event. It is of the older kind with one time and a count, which kubectl shows
// like those of other controllers.
func (t task) about(kind kind, uid string, now metav1.Time) *corev1.Event {
	a := t.action
	namespace := a.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // Events about objects without a namespace live there
	}
	typ := corev1.EventTypeNormal
	if a.Warning {
		typ = corev1.EventTypeWarning
	}
	message := strings.ToValidUTF8(a.Message, "")
	return &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: t.eventName()},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: apiVersion(a.Resource), Kind: kind.name,
			Namespace: a.Namespace, Name: a.Name, UID: types.UID(uid),
		},
		Reason: a.Reason, Message: printable.Cut(message, maxEventMessage), Type: typ,
		Source:              corev1.EventSource{Component: FieldManager(t.by.Rule)},
		ReportingController: controller, ReportingInstance: printable.Cut(t.by.Rule, maxManager),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}

// eventName returns the Event's name, which is the same for each attempt of the delivery. A handler
// and its rule may each have an action of the same number.
func (t task) eventName() string {
	isOwn := t.by.Handler == ""
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%t\x00%d", t.event.ID, isOwn, t.number))
	hash := "." + hex.EncodeToString(sum[:8])
	name := printable.Cut(t.action.Name, maxName-len(hash)) + hash
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return "informd" + hash // an object's name may have characters that an Event's may not
}
