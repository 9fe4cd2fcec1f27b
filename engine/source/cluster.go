package source

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/informd/informd/internal/bounded"
)

// These limits say how many answers in all ClusterUID needs before it believes that kube-system is
// refused or missing. Half a second passes between two requests.
const (
	believeRefused = 3
	believeMissing = 60
)

// ClusterUID returns the uid of the namespace kube-system, which identifies the cluster as long as
// it lives. It returns "" if the credentials may not read that namespace. ClusterUID waits for an
// API server that it cannot reach, and shows the reason as the informers' state meanwhile. It
// returns ctx's error if ctx ends.
//
// An API server that has just started may refuse requests that it allows later, and a new cluster
// has no kube-system yet. So ClusterUID does not believe the first such answer.
func (s *Informers) ClusterUID(ctx context.Context) (string, error) {
	client, err := metadata.NewForConfigAndClient(s.config, bounded.Client(s.over.lists))
	if err != nil {
		return "", err
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	namespaces := client.Resource(resource)
	refused, missing := 0, 0
	for pause := s.tuning.pause; ; pause = min(2*pause, s.tuning.unreachablePause) {
		system, err := s.kubeSystem(ctx, namespaces)
		switch {
		case err == nil:
			s.reach.back()
			return string(system.UID), nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case apierrors.IsForbidden(err):
			s.reach.back()
			if refused++; refused == believeRefused {
				return "", nil
			}
			pause = s.tuning.pause
		case apierrors.IsNotFound(err):
			s.reach.back()
			if missing++; missing == believeMissing {
				return "", nil
			}
			pause = s.tuning.pause
		default:
			s.unreachable(err)
		}
		if err := sleep(ctx, jitter(pause)); err != nil {
			return "", err
		}
	}
}

// kubeSystem asks for the namespace kube-system, and waits for the answer for a limited time.
func (s *Informers) kubeSystem(
	ctx context.Context, namespaces metadata.Getter,
) (*metav1.PartialObjectMetadata, error) {
	limited, cancel := context.WithTimeoutCause(ctx, s.tuning.answer, &silentError{after: s.tuning.answer})
	defer cancel()
	system, err := namespaces.Namespace("").Get(limited, "kube-system", metav1.GetOptions{})
	_, isPlugin := errors.AsType[*PluginError](err)
	silent, isSilent := errors.AsType[*silentError](context.Cause(limited))
	if err != nil && isSilent && !isPlugin {
		return nil, silent
	}
	return system, err
}

// unreachable shows in the informers' state why informd could not ask the API server for the
// cluster's uid.
func (s *Informers) unreachable(err error) {
	reason := "cannot reach the API server: " + reasonOf(err)
	switch {
	case apierrors.IsUnauthorized(err):
		reason = "the API server refuses the credentials: " + reasonOf(err)
	case errors.As(err, new(*silentError)), errors.As(err, new(*PluginError)):
		reason = reasonOf(err)
	case !isUnreachable(err):
		reason = "the API server does not answer: " + reasonOf(err)
	}
	s.reach.away(reason)
	for _, i := range s.All() {
		i.health.trouble(Failing, reason, false)
	}
}
