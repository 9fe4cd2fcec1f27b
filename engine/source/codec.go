package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/object/scan"
)

// codec is the runtime.NegotiatedSerializer of an informer's REST client: client-go reads responses
// with it. For each event of a watch, client-go calls three parts of it in turn:
//
//	framer          finds where in the body the event's frame ends      (framer.go)
//	stream decoder  frame ─▶ metav1.WatchEvent{Type, raw object}
//	object decoder  raw object ─▶ runtime.Object
//
// The end of the raw object is known only after reading it. So the stream decoder reads the whole
// frame in one pass and keeps the decoded object. The object decoder, which client-go calls next,
// returns that object. Both share one [frameDecoder], which is new for each watch.
type codec struct{ reader *entryReader }

// SupportedMediaTypes returns the decoders of one response. client-go calls it for each response.
func (c codec) SupportedMediaTypes() []runtime.SerializerInfo {
	d := &frameDecoder{reader: c.reader}
	return []runtime.SerializerInfo{{
		MediaType: runtime.ContentTypeJSON, EncodesAsText: true,
		MediaTypeType: "application", MediaTypeSubType: "json",
		Serializer: objectDecoder{frame: d},
		StreamSerializer: &runtime.StreamSerializerInfo{
			EncodesAsText: true, Serializer: streamDecoder{frame: d}, Framer: framer{},
		},
	}}
}

// DecoderToVersion returns d: versions stay as they are.
func (codec) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}

// EncoderForVersion returns e. It is unused, because informers never send objects.
func (codec) EncoderForVersion(e runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder {
	return e
}

// frameDecoder reads the frames of one watch. One goroutine uses it.
type frameDecoder struct {
	readOnly
	reader *entryReader

	scan   scan.Scanner
	raw    []byte         // the object in the newest frame; part of the frame
	object runtime.Object // the decoded raw
}

// read decodes a frame into event, and its object into d.object. The object may precede its type.
func (d *frameDecoder) read(frame []byte, event *metav1.WatchEvent) error {
	d.raw, d.object = nil, nil
	s := &d.scan
	s.Reset(frame)
	if err := s.OpenObject(); err != nil {
		return err
	}
	var o *entry
	for first := true; ; first = false {
		key, more, err := s.NextKey(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if !s.Plain() {
			key = []byte(`"` + scan.Unquote(key) + `"`)
		}
		switch string(key) {
		case `"type"`:
			quoted, err := s.String()
			if err != nil {
				return err
			}
			event.Type = scan.Unquote(quoted)
		case `"object"`:
			if _, err := s.Kind(); err != nil { // skips space before the object
				return err
			}
			start := s.Pos()
			if o, err = d.reader.entry(s); err != nil {
				return err
			}
			d.raw = frame[start:s.Pos()]
		default:
			if _, err := s.Skip(); err != nil {
				return err
			}
		}
	}
	if err := s.End(); err != nil {
		return err
	}
	if o == nil {
		return errors.New("it has no object")
	}
	event.Object.Raw = d.raw
	var err error
	switch watch.EventType(event.Type) {
	case watch.Error:
		d.object = statusOf(d.raw)
	case watch.Bookmark:
		d.object, err = bookmark(d.raw)
	default:
		d.object = o
	}
	return err
}

// streamDecoder decodes frames.
type streamDecoder struct {
	readOnly
	frame *frameDecoder
}

// Decode decodes a frame into into. client-go passes a *metav1.WatchEvent there.
func (d streamDecoder) Decode(
	frame []byte, _ *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return nil, nil, fmt.Errorf("source: cannot decode a stream into %T", into)
	}
	if err := d.frame.read(frame, event); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNoFrame, complete(err))
	}
	return into, nil, nil
}

// complete replaces an unexpected EOF by another error. The frame is complete, so its text is at
// fault, but client-go would take such an EOF for the end of the connection.
func complete(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("it ends too early")
	}
	return err
}

// objectDecoder decodes the objects of watch events, and the Status of a request that failed.
type objectDecoder struct {
	readOnly
	frame *frameDecoder
}

// Decode returns the object that the stream decoder has decoded if raw is the text of that object.
// It decodes any other text as a Status.
func (d objectDecoder) Decode(
	raw []byte, _ *schema.GroupVersionKind, _ runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	if f := d.frame; len(raw) > 0 && len(f.raw) > 0 && &raw[0] == &f.raw[0] {
		return f.object, nil, nil
	}
	status := new(metav1.Status)
	if err := json.Unmarshal(raw, status); err != nil {
		return nil, nil, fmt.Errorf("source: neither an object nor a Status: %w", err)
	}
	if status.Kind != "Status" {
		return nil, nil, errors.New("source: neither an object nor a Status")
	}
	return status, &schema.GroupVersionKind{Version: "v1", Kind: "Status"}, nil
}

// statusOf returns the Status in an ERROR event.
func statusOf(raw []byte) *metav1.Status {
	status := new(metav1.Status)
	if err := json.Unmarshal(raw, status); err != nil || status.Kind != "Status" {
		return &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Reason:  metav1.StatusReasonInternalError,
			Message: "the server sent an error that is not a Status",
		}
	}
	return status
}

// bookmark decodes the object of a BOOKMARK event. The object may have no name: the reflector reads
// only its resourceVersion and annotations.
func bookmark(raw []byte) (*entry, error) {
	o, err := object.FromJSON(raw)
	if err != nil {
		return nil, err
	}
	return &entry{Object: o}, nil
}

// readOnly is the unused half of a runtime.Serializer, because informers never send objects.
type readOnly struct{}

func (readOnly) Encode(runtime.Object, io.Writer) error {
	return errors.New("source: this codec cannot encode")
}

func (readOnly) Identifier() runtime.Identifier { return "informd" }
