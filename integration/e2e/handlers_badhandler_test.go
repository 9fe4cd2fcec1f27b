package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/serve"
)

// badHandlerCommand, as the first argument, makes the test binary a handler that behaves as the
// second argument says.
const badHandlerCommand = "bad-handler"

// badHandler speaks the protocol badly, on purpose. plugins/serve would not allow that.
type badHandler struct {
	handlerpb.UnimplementedHandlerServer
	plugin.NetRPCUnsupportedPlugin
	vice string
}

func serveBadHandler(vice string) {
	h := &badHandler{vice: vice}
	handshake := serve.Handshake
	if vice == "speaks-other-version" {
		handshake.ProtocolVersion = 99
	}
	if vice == "does-not-end" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: handshake,
		Plugins:         plugin.PluginSet{handlerpb.PluginName: h},
		GRPCServer:      plugin.DefaultGRPCServer,
		Logger:          hclog.NewNullLogger(),
	})
	if vice == "does-not-end" {
		time.Sleep(24 * time.Hour)
	}
}

// GRPCServer implements plugin.GRPCPlugin.
func (h *badHandler) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	handlerpb.RegisterHandlerServer(s, h)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin.
func (h *badHandler) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, fmt.Errorf("%s is no host", h.vice)
}

func (h *badHandler) Describe(context.Context, *handlerpb.DescribeRequest) (*handlerpb.DescribeResponse, error) {
	if h.vice == "hangs-in-describe" {
		select {}
	}
	return &handlerpb.DescribeResponse{Name: h.vice}, nil
}

func (h *badHandler) Configure(context.Context, *handlerpb.ConfigureRequest) (*handlerpb.ConfigureResponse, error) {
	if h.vice == "refuses-config" {
		return &handlerpb.ConfigureResponse{Problems: []*handlerpb.Problem{
			{Path: []string{"routes", "0", "channel"}, Message: "no such channel; create it first"},
		}}, nil
	}
	return &handlerpb.ConfigureResponse{}, nil
}

func (h *badHandler) Health(context.Context, *handlerpb.HealthRequest) (*handlerpb.HealthResponse, error) {
	return &handlerpb.HealthResponse{}, nil
}

func (h *badHandler) Drain(context.Context, *handlerpb.DrainRequest) (*handlerpb.DrainResponse, error) {
	return &handlerpb.DrainResponse{}, nil
}

func (h *badHandler) Deliver(stream handlerpb.Handler_DeliverServer) error {
	h.begin()
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, ev := range req.GetEvents() {
			if err := h.answer(stream, ev.GetSeq()); err != nil {
				return err
			}
		}
	}
}

// begin misbehaves beside events.
func (h *badHandler) begin() {
	stderr := os.NewFile(2, "stderr") // go-plugin has replaced os.Stderr
	switch h.vice {
	case "floods-its-log":
		go func() {
			line := []byte(strings.Repeat("flood ", 30) + "\n")
			for n := 1; ; n++ {
				if _, err := stderr.Write(line); err != nil {
					return
				}
				if n%1000 == 0 { // others need the processors, too
					time.Sleep(30 * time.Millisecond)
				}
			}
		}()
	case "writes-endless-lines":
		long := strings.Repeat("x", 5<<20)
		for _, f := range []*os.File{stderr, os.Stderr, os.Stdout} {
			go func() { _, _ = f.WriteString(long + "\n") }()
		}
	case "breaks-log-parsers":
		_, _ = stderr.WriteString(strings.Join([]string{
			`{"@message":5}`, `{"@message":"x","@level":[],"@timestamp":{}}`, `{"@level":"info"`, `[ERROR`, `{"level":null,"msg":null}`,
			"\x1b[2J\x1b]0;title\a\x00\xff", `{"@message":"` + strings.Repeat(`{`, 5000) + `"}`, "",
		}, "\n"))
	case "leaves-children":
		// One child stays in the process group and one leaves it. Both hold standard error, and
		// must end with the handler.
		inGroup, left := exec.Command("sleep", "86400"), exec.Command("sleep", "86400")
		left.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		for _, child := range []*exec.Cmd{inGroup, left} {
			child.Stderr = stderr
			_ = child.Start() // and nothing waits for it here
		}
	}
}

func (h *badHandler) answer(stream handlerpb.Handler_DeliverServer, seq uint64) error {
	switch h.vice {
	case "never-answers", "does-not-end":
		return nil
	case "answers-too-much":
		return stream.Send(&handlerpb.DeliverResponse{
			Done: []uint64{seq, seq, seq + 1_000_000, 0},
			Answers: []*handlerpb.Answer{
				{Seq: seq, Result: &handlerpb.Answer_Reject{Reject: &handlerpb.Reject{Reason: "on second thoughts"}}},
				{Seq: 1<<64 - 1},
			},
		})
	case "dies-of-events":
		os.Exit(3)
	case "freezes":
		return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
	return stream.Send(&handlerpb.DeliverResponse{Done: []uint64{seq}})
}
