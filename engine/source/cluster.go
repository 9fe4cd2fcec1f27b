package source

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// ClusterUID is what tells this cluster from any other, as long as it lives: the uid of its namespace kube-system. It is
// empty if that may not be read, or there is none. An API server that cannot be reached is waited for, which is told as
// the informers' state; the error is ctx's.
func (s *Informers) ClusterUID(ctx context.Context) (string, error) {
	client, err := metadata.NewForConfigAndClient(s.config, s.http)
	if err != nil {
		return "", err
	}
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	for pause := s.tuning.pause; ; pause = min(2*pause, s.tuning.unreachablePause) {
		system, err := namespaces.Get(ctx, "kube-system", metav1.GetOptions{})
		switch {
		case err == nil:
			s.reach.back()
			return string(system.UID), nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			s.reach.back()
			return "", nil
		}
		s.unreachable(err)
		if err := sleep(ctx, jitter(pause)); err != nil {
			return "", err
		}
	}
}

// unreachable tells that the cluster could not be asked who it is.
func (s *Informers) unreachable(err error) {
	reason := "cannot reach the API server: " + reasonOf(err)
	switch {
	case apierrors.IsUnauthorized(err):
		reason = "the API server refuses the credentials: " + reasonOf(err)
	case !isUnreachable(err):
		reason = "the API server does not answer: " + reasonOf(err)
	}
	s.reach.away(reason)
	for _, i := range s.All() {
		i.status.trouble(Failing, reason, false)
	}
}
