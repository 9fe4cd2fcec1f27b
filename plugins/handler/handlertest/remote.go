package handlertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/informd/informd/plugins/handlerpb"
	"github.com/informd/informd/plugins/host"
)

// remote says where the handler is that runs elsewhere.
func (s *suite) remote(config json.RawMessage) host.RemoteSpec {
	spec := *s.Remote
	spec.Name, spec.Config, spec.Concurrency, spec.Timeout = s.spec.Name, config, s.spec.Concurrency, s.spec.Timeout
	return spec
}

// tryRemote is as host.Try: it connects to the handler, and hands it a config.
func (t *trial) tryRemote(ctx context.Context, config json.RawMessage) (d host.Description, err error) {
	if err := host.TryRemote(ctx, t.remote(config), t.options()); err != nil {
		return d, err
	}
	h := host.NewRemote(t.remote(config), t.options())
	running, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Run(running) }()
	defer func() { stop(); <-done }()
	var st host.Status
	t.await(ctx, func() bool {
		st = h.Status()
		return st.State == host.Running || st.State == host.Refused
	})
	switch st.State {
	case host.Running:
		return st.Handler, nil
	case host.Refused:
		_, why, _ := strings.Cut(st.Reason, "it refuses its config: ")
		return d, &host.RefusedError{Problems: []host.Problem{{Message: why}}}
	}
	return d, errors.New(st.Reason)
}

// dial connects to the handler that runs elsewhere as another program could.
func (t *trial) dial() (*process, error) {
	spec := t.remote(t.Config)
	config, err := spec.TLS()
	if err != nil {
		return nil, err
	}
	target := fmt.Sprintf("dns://%s/%s", spec.DNS, net.JoinHostPort(spec.Host, strconv.Itoa(int(spec.Port))))
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithNoProxy())
	if err != nil {
		return nil, err
	}
	return &process{conn: conn, api: handlerpb.NewHandlerClient(conn)}, nil
}
