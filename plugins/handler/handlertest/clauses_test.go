package handlertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/informd/informd/plugins/handler"
	"github.com/informd/informd/plugins/handler/handlertest"
	"github.com/informd/informd/plugins/handlerpb"
)

// TestMain re-executes the test binary as a rogue.
func TestMain(m *testing.M) {
	if vice := os.Getenv("ROGUE"); vice != "" {
		if err := serveRogue(vice); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// Each clause can fail: for each there is a handler that does not keep it.
func TestClausesFail(t *testing.T) {
	for _, c := range []struct{ vice, clause, problem string }{
		{"is nameless", "starts, describes itself and takes its config", "it has no name"},
		{"accepts any config", "refuses a bad config", `it accepts {"handlertest-unknown-field": 1}`},
		{"refuses without a word", "refuses a bad config", "without saying why"},
		{"needs no cookie", "explains itself when started by hand", "does not exit"},
		{"is done without a cookie", "explains itself when started by hand", "status 0"},
		{"is silent without a cookie", "explains itself when started by hand", "without a word"},
		{"has no health", "serves gRPC's health service", "unknown service grpc.health.v1.Health"},
		{"is not serving", "serves gRPC's health service", "NOT_SERVING"},
		{"retries everything", "answers", "an event: not done: not today"},
		{"refuses repeats", "answers a repeat", "attempt 2: not done"},
		{"answers twice", "answers", "gave 1 answers to events that it had answered before"},
		{"dies of an event without object", "answers strange events", "an event of no object ended it"},
		{"takes 4 MiB", "answers large events", "an event of 8 MB"},
		{"asks for what has no name", "asks for actions that can be taken", "an event updated: actions[0], patch: it has no name"},
		{"asks for too much", "asks for actions that can be taken", "the answer has 65 actions"},
		{"asks for an unknown action", "asks for actions that can be taken", "actions[0] of the answer is of a kind that this informd does not know"},
		{"reads an unknown source", "reads what the cache has", "1 of its 1 calls to read the cache were refused"},
		{"dies of an empty cache", "answers when the cache cannot be read", "an event while the cache cannot be read ended it"},
		{"does not answer what is cancelled", "lets go of what is cancelled", "1 of 1 not answered"},
		{"drops what it has", "answers what it has when the stream ends", "8 of 8 not answered"},
		{"keeps the stream", "answers what it has when the stream ends", "does not close the stream"},
		{"leaves a lock", "bears a second process of itself", "locked"},
		{"leaves a lock", "comes back after kill -9", "locked"},
		{"dies of SIGINT", "ignores SIGINT and SIGTERM before its drain", `after the signal "interrupt": 1 of 1 not answered`},
		{"does not end", "ends when asked", "did not end within 3s of its drain"},
		{"does not end", "ends with its host", "it lives on"},
	} {
		t.Run(c.vice+"/"+c.clause, func(t *testing.T) {
			t.Parallel()
			o := rogueWith(t, c.vice)
			o.Timeout = time.Second
			patience := 5 * time.Second
			if c.vice == "does not end" { // all of it passes, several times over
				patience = 2 * time.Second
			}
			r, found := handlertest.CheckClause(t.Context(), o, c.clause, patience)
			if !found || r.Holds() || !strings.Contains(strings.Join(r.Problems, "\n"), c.problem) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// What explains all others is the last clause that is checked.
func TestCheckStops(t *testing.T) {
	t.Parallel()
	for vice, last := range map[string]string{
		"is done without a cookie": "ends with its host",
		"retries everything":       "answers",
		"does not start":           "starts, describes itself and takes its config",
	} {
		o := rogueWith(t, vice)
		if vice == "does not start" {
			o.Command = []string{"false"}
		}
		var results []handlertest.Result
		for r := range handlertest.Check(t.Context(), o) {
			results = append(results, r)
		}
		if got := results[len(results)-1].Clause; got != last {
			t.Errorf("%s: the last clause is %q, want %q", vice, got, last)
		}
	}
}

// A clause is not checked for longer than a minute. One that is not finished by then is no failure.
func TestClauseLimit(t *testing.T) {
	t.Parallel()
	o := rogueWith(t, "does not answer what is cancelled") // it answers nothing
	o.Timeout = time.Hour
	r := handlertest.CheckWithin(t.Context(), o, "answers", 2*time.Second)
	if r.NotChecked != "it was not finished within 2s" || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
}

// A check in which a clause does not hold takes a minute in all.
func TestCheckLimit(t *testing.T) {
	t.Parallel()
	results := handlertest.CheckAllWithin(t.Context(), rogueWith(t, "accepts any config"), time.Millisecond)
	if len(results) != len(handlertest.Clauses()) || len(results[1].Problems) == 0 {
		t.Fatalf("%+v", results)
	}
	for _, r := range results[2:] {
		if !strings.HasPrefix(r.NotChecked, "the check has taken a minute") {
			t.Errorf("%+v", r)
		}
	}
}

func TestOnlyOneClause(t *testing.T) {
	t.Parallel()
	for only, want := range map[string]string{"answers a repeat": "", "answers twice": "there is no such clause"} {
		o := rogueWith(t, "none")
		o.Only = only
		n := 0
		for r := range handlertest.Check(t.Context(), o) {
			n++
			if r.Clause != only || !strings.Contains(strings.Join(r.Problems, "\n"), want) || r.Holds() != (want == "") {
				t.Errorf("%+v", r)
			}
		}
		if n != 1 {
			t.Errorf("%q: %d clauses", only, n)
		}
	}
}

// An action may make sense, and still not be allowed.
func TestActionIsNotAllowed(t *testing.T) {
	t.Parallel()
	o := rogueWith(t, "asks for a patch")
	o.Allow = func(_ handler.Event, a handler.Action) error { return fmt.Errorf("%s is not granted", a.Verb) }
	o.Only = "asks for actions that can be taken"
	for r := range handlertest.Check(t.Context(), o) {
		if !strings.Contains(strings.Join(r.Problems, "\n"), "actions[0], patch: patch is not granted") {
			t.Errorf("%+v", r)
		}
	}
}

// Without a vice, all clauses hold that can be checked.
func TestClausesHold(t *testing.T) {
	t.Parallel()
	n := 0
	for r := range handlertest.Check(t.Context(), rogueWith(t, "none")) {
		n++
		if told := []string{"keeps integers", "asks for actions that can be taken", "reads what the cache has", "answers when the cache cannot be read"}; r.Holds() == slices.Contains(told, r.Clause) || len(r.Problems) > 0 {
			t.Errorf("%+v", r)
		}
	}
	if n < 10 {
		t.Errorf("%d clauses", n)
	}
}

func rogueWith(t *testing.T, vice string) handlertest.Options {
	return handlertest.Options{
		Command: []string{os.Args[0]}, Dir: t.TempDir(),
		Env: []string{"ROGUE=" + vice, "GORACE=atexit_sleep_ms=0"}, Cache: map[string]handlertest.Source{
			"pods": {Objects: []json.RawMessage{json.RawMessage(`{"metadata":{"namespace":"a","name":"web"}}`)}},
		},
	}
}

// A handler that cannot be started is reported once.
func TestNoHandler(t *testing.T) {
	var all []handlertest.Result
	for r := range handlertest.Check(t.Context(), handlertest.Options{Command: []string{"/no/such/handler"}}) {
		all = append(all, r)
	}
	if len(all) != 1 || !slices.Equal(all[0].Problems, []string{"/no/such/handler does not exist"}) {
		t.Errorf("got %v", all)
	}
}

// A program that is no handler is quoted, although it has exited by then.
func TestProgramThatIsNoHandler(t *testing.T) {
	for range 20 {
		for r := range handlertest.Check(t.Context(), handlertest.Options{Command: []string{"sh", "-c", "echo hello; exit 3"}}) {
			if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], `not a handshake but "hello"`) ||
				!strings.HasSuffix(r.Problems[0], "; it exited with status 3") {
				t.Fatalf("got %q", r.Problems)
			}
		}
	}
}

// A cache that cannot be made is reported once, too.
func TestEmptyCache(t *testing.T) {
	o := rogueWith(t, "none")
	o.Cache = map[string]handlertest.Source{"pods": {Objects: []json.RawMessage{json.RawMessage(`{"metadata":{"namespace":"a"}}`)}}}
	for r := range handlertest.Check(t.Context(), o) {
		if want := []string{`the cache's source "pods", object 1: it has no metadata.name`}; !slices.Equal(r.Problems, want) {
			t.Errorf("got %q, want %q", r.Problems, want)
		}
		return
	}
}

// An interrupted check ends, and reports no clause that it could not decide.
func TestCheckInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for range handlertest.Check(ctx, rogueWith(t, "none")) {
		n++
		cancel()
	}
	if n != 1 {
		t.Errorf("%d results", n)
	}
}

// rogue speaks the protocol by hand, as a handler in another language does, and has one vice.
type rogue struct {
	handlerpb.UnimplementedHandlerServer
	vice string
}

func serveRogue(vice string) error {
	is := func(v string) bool { return v == vice }
	if os.Getenv(handlerpb.CookieKey) == "" && !is("needs no cookie") {
		switch vice {
		case "is done without a cookie":
			return nil
		case "is silent without a cookie":
			os.Exit(1)
		}
		return errors.New("I am a handler")
	}
	if !is("dies of SIGINT") {
		signal.Ignore(os.Interrupt)
	}
	if term := make(chan os.Signal, 1); is("does not end") {
		signal.Notify(term, syscall.SIGTERM) // nobody listens
	} else {
		signal.Ignore(syscall.SIGTERM)
	}
	if is("leaves a lock") {
		lock, err := os.OpenFile("lock", os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return errors.New("locked")
		}
		defer func() { _ = os.Remove(lock.Name()); _ = lock.Close() }()
	}
	socket := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s"+fmt.Sprint(os.Getpid()))
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	limit := 64 << 20
	if is("takes 4 MiB") {
		limit = 4 << 20
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(limit))
	handlerpb.RegisterHandlerServer(server, &rogue{vice: vice})
	if !is("has no health") {
		h, status := health.NewServer(), grpc_health_v1.HealthCheckResponse_SERVING
		if is("is not serving") {
			status = grpc_health_v1.HealthCheckResponse_NOT_SERVING
		}
		h.SetServingStatus("plugin", status)
		grpc_health_v1.RegisterHealthServer(server, h)
	}
	fmt.Printf("1|1|unix|%s|grpc|\n", socket)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		if !is("does not end") {
			server.Stop()
		}
	}()
	return server.Serve(listener)
}

func (r *rogue) Describe(context.Context, *handlerpb.DescribeRequest) (*handlerpb.DescribeResponse, error) {
	if r.vice == "is nameless" {
		return &handlerpb.DescribeResponse{}, nil
	}
	return &handlerpb.DescribeResponse{Name: "rogue"}, nil
}

func (r *rogue) Configure(_ context.Context, req *handlerpb.ConfigureRequest) (*handlerpb.ConfigureResponse, error) {
	resp := &handlerpb.ConfigureResponse{}
	switch {
	case len(req.GetConfig()) == 0 || r.vice == "accepts any config":
	case r.vice == "refuses without a word":
		resp.Problems = []*handlerpb.Problem{{}}
	default:
		resp.Problems = []*handlerpb.Problem{{Message: "unknown"}}
	}
	return resp, nil
}

// unwise actions, by the vice.
var unwise = map[string][]*handlerpb.Action{
	"asks for what has no name": {{Action: &handlerpb.Action_Patch{Patch: &handlerpb.Patch{Target: &handlerpb.Target{Resource: &handlerpb.Resource{Version: "v1", Resource: "pods"}}}}}},
	"asks for a patch": {{Action: &handlerpb.Action_Patch{Patch: &handlerpb.Patch{
		Target: &handlerpb.Target{Resource: &handlerpb.Resource{Version: "v1", Resource: "pods"}, Name: "web"}, Patch: []byte(`{}`)}}}},
	"asks for too much":          make([]*handlerpb.Action, 65),
	"asks for an unknown action": make([]*handlerpb.Action, 1),
}

// read reads a source of the cache, and says whether it could.
func read(source string) bool {
	conn, err := grpc.NewClient(os.Getenv(handlerpb.EnvCacheSocket), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_, err = handlerpb.NewCacheClient(conn).Get(context.Background(), &handlerpb.GetRequest{Source: source, Namespace: "a", Name: "web"})
	return err == nil
}

// Deliver answers at once, unless its vice is about unanswered events.
func (r *rogue) Deliver(stream handlerpb.Handler_DeliverServer) error {
	var mu sync.Mutex
	send := func(seqs ...uint64) error {
		mu.Lock()
		defer mu.Unlock()
		return stream.Send(&handlerpb.DeliverResponse{Done: seqs})
	}
	for {
		req, err := stream.Recv()
		if err != nil {
			if r.vice == "keeps the stream" {
				<-stream.Context().Done()
				return stream.Context().Err()
			}
			return nil
		}
		for _, ev := range req.GetEvents() {
			var err error
			switch {
			case strings.HasPrefix(r.vice, "asks for"):
				err = stream.Send(&handlerpb.DeliverResponse{Answers: []*handlerpb.Answer{
					{Seq: ev.GetSeq(), Result: &handlerpb.Answer_Done{Done: &handlerpb.Done{Actions: unwise[r.vice]}}},
				}})
			case r.vice == "reads an unknown source", r.vice == "dies of an empty cache":
				if !read(map[bool]string{true: "pods", false: "cats"}[r.vice == "dies of an empty cache"]) && r.vice == "dies of an empty cache" {
					os.Exit(3)
				}
				err = send(ev.GetSeq())
			case r.vice == "retries everything", r.vice == "refuses repeats" && ev.GetAttempt() > 1:
				err = stream.Send(&handlerpb.DeliverResponse{Answers: []*handlerpb.Answer{
					{Seq: ev.GetSeq(), Result: &handlerpb.Answer_Retry{Retry: &handlerpb.Retry{Reason: "not today"}}},
				}})
			case r.vice == "answers twice":
				err = send(ev.GetSeq(), ev.GetSeq())
			case r.vice == "dies of an event without object" && len(ev.GetObject()) == 0:
				os.Exit(3)
			case r.vice == "does not answer what is cancelled", r.vice == "drops what it has":
			default:
				err = send(ev.GetSeq())
			}
			if err != nil {
				return err
			}
		}
	}
}
