package session

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host/outbox"
)

// messages is a stream that notes when a message was sent and how many events were sent by then. It
// answers nothing.
type messages struct {
	handlerpb.Handler_DeliverClient
	consumer *outbox.Consumer
	began    time.Time
	sent     []string
}

func (m *messages) SendMsg(any) error {
	_, inFlight, _ := m.consumer.Stats()
	m.sent = append(m.sent, fmt.Sprintf("%v: %d", time.Since(m.began), inFlight))
	return nil
}

func (m *messages) CloseSend() error { return nil }

// An event that comes alone goes at once. Events that come together share a message, which goes at
// once when it is full.
func TestEventsThatComeTogetherShareAMessage(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	for _, test := range []struct {
		why    string
		window int
		after  []time.Duration // from one event to the next
		want   []string        // when a message is sent, and how many events were sent by then
	}{
		{"alone", 8, []time.Duration{0, 2 * ms, 10 * ms}, []string{"0s: 1", "2ms: 2", "12ms: 3"}},
		{"together", 8, []time.Duration{0, 100 * us, 100 * us, 100 * us}, []string{"0s: 1", "600µs: 4"}},
		{"the first of the next batch waits too", 8, []time.Duration{0, 100 * us, 100 * us, 10 * ms, 100 * us},
			[]string{"0s: 1", "600µs: 3", "10.7ms: 5"}},
		{"later it does not", 8, []time.Duration{0, 100 * us, 100 * us, 21 * ms}, []string{"0s: 1", "600µs: 3", "21.2ms: 4"}},
		{"one of several that comes alone ends it", 8, []time.Duration{0, 100 * us, 100 * us, 10 * ms, 10 * ms},
			[]string{"0s: 1", "600µs: 3", "10.7ms: 4", "20.2ms: 5"}},
		{"the window is full", 3, []time.Duration{0, 100 * us, 100 * us}, []string{"0s: 1", "200µs: 3"}},
		{"one at a time", 1, []time.Duration{0, 100 * us}, []string{"0s: 1"}},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				box := outbox.New(time.Minute)
				stream := &messages{consumer: box.NewConsumer(), began: time.Now()}
				d := &delivering{
					Session:  &Session{terms: Terms{Timeout: time.Minute}, stream: stream},
					consumer: stream.consumer,
				}
				d.consumer.Attach(outbox.Window{Events: test.window, Bytes: 1 << 20, Abandoned: 8, Patience: time.Hour})
				ctx, end := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- d.send(ctx, ctx) }()
				synctest.Wait()
				for i, after := range test.after {
					time.Sleep(after)
					box.Submit(t.Context(), &handler.Event{Name: fmt.Sprint(i)}, func(handler.Answer, error) {})
					synctest.Wait()
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if diff := cmp.Diff(test.want, stream.sent); diff != "" {
					t.Errorf("messages (-want +got)\n%s", diff)
				}
				end()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
