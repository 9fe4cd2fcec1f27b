// This file owns requests that a member's caller sends to another member's caller. The package does
// not know what they are about.

package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// ErrUnreachable is wrapped by the errors of a request that was not sent.
var ErrUnreachable = errors.New("the replica cannot be reached")

// passedPath begins the paths of requests for Options.Asked.
const passedPath = "/passed"

// clusterHeader names the cluster that a request for Options.Asked is meant for.
const clusterHeader = "Informd-Cluster"

// Leader returns the name of the member that leads, as far as this one knows, or "".
func (m *Member) Leader() string {
	name, _ := m.raft.LeaderWithID()
	return string(name)
}

// Transport sends requests to other members, whose Options.Asked answers them. The host in a
// request's URL is the member's name. Each request has a connection of its own, which ends when one
// of the members falls silent, or is closed. A member of another cluster answers with
// [http.StatusMisdirectedRequest].
func (m *Member) Transport() http.RoundTripper {
	return &passing{m, &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			name, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			conn, err := m.network.dial(ctx, name, forHTTP, "")
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
			}
			return conn, nil
		},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
	}}
}

// passing is the Transport of a member.
type passing struct {
	member *Member
	http   *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (p *passing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = passedPath+r.URL.Path, ""
	r.Header.Set(clusterHeader, p.member.self.clusterID())
	return p.http.RoundTrip(r)
}

// answerPassed answers a request of another member's Transport.
func (o *others) answerPassed(w http.ResponseWriter, r *http.Request) {
	asked := o.member.options.Asked
	if cluster := o.member.self.clusterID(); asked == nil || r.Header.Get(clusterHeader) != cluster {
		http.Error(w, "this replica belongs to another cluster", http.StatusMisdirectedRequest)
		return
	}
	r.Header.Del(clusterHeader)
	r.URL.Path = strings.TrimPrefix(r.URL.Path, passedPath)
	r.URL.RawPath = ""
	asked.ServeHTTP(w, r)
}
