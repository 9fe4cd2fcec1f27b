package webhook

import (
	"fmt"
	"net/url"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/informd/informd/plugins/builtin/internal/eventjson"
	"github.com/informd/informd/plugins/handler"
)

// encode returns ev as a CloudEvent in the JSON format (https://github.com/cloudevents/spec,
// v1.0.2). It has no time: Kubernetes does not say when an object changed, and any other time would
// differ from one attempt to the next.
func encode(ev handler.Event) ([]byte, error) {
	data, err := eventjson.Append(nil, ev)
	if err != nil {
		return nil, err
	}
	ce := event.New(event.CloudEventsVersionV1)
	ce.SetID(ev.ID)
	ce.SetSource("/informd/rules/" + url.PathEscape(ev.Rule))
	ce.SetType("dev.informd." + ev.Event)
	ce.SetSubject(subject(ev))
	ce.SetDataContentType(event.ApplicationJSON)
	if ev.Traceparent != "" {
		ce.SetExtension("traceparent", ev.Traceparent) // as the extension Distributed Tracing has it
	}
	ce.DataEncoded = data // SetData would encode bytes as base64
	if err := ce.Validate(); err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return ce.MarshalJSON()
}

// subject names the object by its resource, namespace and name, as in
// apps/v1/deployments/shop/web or v1/nodes/node-1.
func subject(ev handler.Event) string {
	s := ev.Resource.Version + "/" + ev.Resource.Resource + "/"
	if ev.Resource.Group != "" {
		s = ev.Resource.Group + "/" + s
	}
	if ev.Namespace != "" {
		s += ev.Namespace + "/"
	}
	return s + ev.Name
}
