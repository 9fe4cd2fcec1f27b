package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/informd/informd/plugins/handler"
)

type config struct {
	Channel string        `json:"channel"`
	Retries []retry       `json:"retries"`
	Timeout time.Duration `json:"timeout"` // in the manifest, a string such as 10s

	_ struct{} `instead:"room: write channel"`
}

type retry struct {
	After time.Duration `json:"after"`
}

// Validate is called by DecodeConfig.
func (c config) Validate() error {
	if c.Channel == "" {
		return errors.New("channel: required")
	}
	return nil
}

func ExampleDecodeConfig() {
	defaults := config{Timeout: 10 * time.Second}
	c, err := handler.DecodeConfig(json.RawMessage(`{"channel": "#ops"}`), defaults)
	fmt.Println(c.Channel, c.Timeout, err)

	_, err = handler.DecodeConfig(json.RawMessage(`{"retries": [{}, {"after": 5}], "timout": "1s"}`), defaults)
	fmt.Println(err)

	_, err = handler.DecodeConfig(json.RawMessage(`{"room": "#ops"}`), defaults)
	fmt.Println(err)
	// Output:
	// #ops 10s <nil>
	// retries[1].after: must be a duration such as "10s", not a number
	// unknown field "timout", did you mean "timeout"? (known: channel, retries, timeout)
	// channel: required
	// unknown field "room"; write channel
}

// A handler that labels Deployments without replicas, and says so.
func ExampleTarget() {
	handle := func(_ context.Context, ev handler.Event) (handler.Answer, error) {
		var deployment struct {
			Spec struct {
				Replicas int `json:"replicas"`
			} `json:"spec"`
		}
		if err := ev.Decode(&deployment); err != nil || deployment.Spec.Replicas > 0 {
			return handler.Answer{}, err
		}
		label, err := ev.Target().Patch(`{"metadata":{"labels":{"example.com/idle":"yes"}}}`)
		if err != nil {
			return handler.Answer{}, err
		}
		said := ev.Target().Event("Idle", "There are no replicas.")
		return handler.Answer{Actions: []handler.Action{label, said}}, nil
	}
	ev := handler.Event{
		Event: handler.Added, Rule: "deployments", Namespace: "shop", Name: "web",
		Resource: handler.Resource{Group: "apps", Version: "v1", Resource: "deployments"},
		Object:   json.RawMessage(`{"spec":{"replicas":0}}`),
	}
	answer, err := handle(context.Background(), ev)
	for _, a := range answer.Actions {
		fmt.Printf("%s %s: %s%s\n", a.Verb, a.Name, a.Patch, a.Reason)
	}
	fmt.Println(err)

	ev.Object, ev.Payload = nil, json.RawMessage(`{"node":"north"}`)
	_, err = handle(context.Background(), ev)
	fmt.Println(err)
	// Output:
	// patch web: {"metadata":{"labels":{"example.com/idle":"yes"}}}
	// event web: Idle
	// <nil>
	// rejected: apps/v1/deployments shop/web: the event has no object, because rule "deployments" has a payload: decode that, or remove it from the rule
}
