// What a daemon knows about the replicas that it is one of.

package control

import (
	"context"
	"net/http"
	"time"

	"github.com/informd/informd/engine/replica"
)

// Cluster is what a replica knows about all of them.
type Cluster = replica.Status

// Replicas is what a Server knows about the replicas that its daemon is one of.
type Replicas struct {
	Name   string // of this one
	Status func(context.Context) Cluster
	// HandOver makes another replica lead, and returns when one does.
	HandOver func(context.Context) error
	// Leader returns the name of the one that leads, as far as this one knows, or "".
	Leader func() string
	// Transport sends a request to another replica, whose Server answers it by AnswerPassed. The host
	// in the request's URL is the replica's name. Its errors are those of replica.Member.Transport.
	Transport http.RoundTripper
}

const (
	clusterPath  = "/v1/cluster"
	handOverPath = "/v1/cluster/hand-over"
)

// errAlone is the answer of an informd without replicas.
var errAlone = problem(http.StatusNotFound,
	"this informd is not one of several replicas: informd run --name --peers makes it one")

func (s *Server) answerCluster(a *answer, r *http.Request) error {
	if s.replicas == nil {
		return errAlone
	}
	return writeJSON(a, s.replicas.Status(r.Context()))
}

// maxHandOver bounds how long a hand-over takes: deliveries in flight end first.
const maxHandOver = 50 * time.Second

func (s *Server) handOver(a *answer, r *http.Request) error {
	if s.replicas == nil {
		return errAlone
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxHandOver)
	defer cancel()
	if err := s.replicas.HandOver(ctx); err != nil {
		return problem(http.StatusConflict, "%v", err)
	}
	return writeJSON(a, s.replicas.Status(ctx))
}

// Cluster returns what the daemon knows about the replicas that it is one of.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	var status Cluster
	err := c.call(ctx, http.MethodGet, clusterPath, nil, nil, &status)
	return status, err
}

// HandOver makes another replica than the daemon lead, and returns what is known about all then.
func (c *Client) HandOver(ctx context.Context) (Cluster, error) {
	var status Cluster
	err := c.call(ctx, http.MethodPost, handOverPath, nil, struct{}{}, &status)
	return status, err
}
