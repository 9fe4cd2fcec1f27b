package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Decode decodes Object into v as json.Unmarshal does, so it ignores fields that v does not have.
//
// It is an error if the event has no Object, as where the rule has a payload, and then v is
// unchanged. The error names the object and wraps [ErrReject], because no attempt would go better:
// Handle can return it as it is. It quotes no value, unless a method of v's types does.
//
// For numbers in an any, use a json.Decoder with UseNumber: a float64 loses large ones.
func (ev Event) Decode(v any) error {
	if isMissing(ev.Object) && len(ev.Payload) > 0 {
		return ev.reject("the event has no object, because rule %q has a payload: decode that, "+
			"or remove it from the rule", ev.Rule)
	}
	return ev.decode("object", ev.Object, v)
}

// DecodeOld decodes Old as Decode does Object. found reports whether there is one: only an Updated
// event has the previous state. It is an error if the rule has a payload, which takes its place.
func (ev Event) DecodeOld(v any) (found bool, err error) {
	if !isMissing(ev.Old) {
		return true, ev.decode("old", ev.Old, v)
	}
	if len(ev.Payload) > 0 {
		return false, ev.reject("the event has no old, because rule %q has a payload: decode that, "+
			"or remove it from the rule", ev.Rule)
	}
	return false, nil
}

// DecodePayload decodes Payload as Decode does Object. It is an error if the rule has no payload,
// or one that is null.
func (ev Event) DecodePayload(v any) error {
	if len(ev.Payload) == 0 {
		return ev.reject("the event has no payload: add spec.payload to rule %q", ev.Rule)
	}
	return ev.decode("payload", ev.Payload, v)
}

// isMissing reports whether text has nothing to decode: json.Unmarshal would leave v as it is.
func isMissing(text json.RawMessage) bool { return len(text) == 0 || isNull(text) }

func (ev Event) decode(what string, text json.RawMessage, v any) error {
	switch {
	case len(text) == 0:
		return ev.reject("the event has no %s", what)
	case isMissing(text):
		return ev.reject("%s is null", what)
	}
	err := json.Unmarshal(text, v)
	if err == nil {
		return nil
	}
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return ev.reject("%s: %w", what, err)
	}
	at := what
	if mismatch.Field != "" {
		at += "." + mismatch.Field
	}
	is, _, _ := strings.Cut(mismatch.Value, " ") // a number's value follows
	return ev.reject("%s: %s does not fit the Go type %v", at, inWords[is], mismatch.Type)
}

// inWords are the values of an UnmarshalTypeError.
var inWords = map[string]string{
	"array": "a list", "bool": "a boolean", "number": "a number", "object": "a mapping",
	"string": "a string",
}

// reject returns a rejection that names the event's object.
func (ev Event) reject(format string, args ...any) error {
	return Reject(fmt.Errorf("%s: "+format, append([]any{ev.Target()}, args...)...))
}
