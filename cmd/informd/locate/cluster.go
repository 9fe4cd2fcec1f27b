// Package locate finds the cluster, its state directory, and the control socket. The daemon and the
// commands that ask it use the same rules, so that they meet.
package locate

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster finds the cluster and its credentials as kubectl does: by kubeconfig if it is not empty,
// $KUBECONFIG, the default file, or in-cluster. It sends nothing. Clients that are made from the
// configuration follow no redirects to other servers.
func Cluster(kubeconfig, context string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	cfg, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err), errors.Is(err, rest.ErrNotInCluster):
		return nil, noCluster(kubeconfig)
	case err != nil:
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return noRedirects{next} })
	return cfg, nil
}

// noCluster returns an error that says what to do if no kubeconfig names a cluster.
func noCluster(kubeconfig string) error {
	if kubeconfig != "" {
		return fmt.Errorf("no cluster to connect to: the kubeconfig %s names none", kubeconfig)
	}
	if paths := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); paths != "" {
		return fmt.Errorf("no cluster to connect to: "+
			"$KUBECONFIG is %s, which is missing or names none", paths)
	}
	return errors.New("no cluster to connect to: " +
		"give --kubeconfig FILE, set KUBECONFIG, or run inside a cluster")
}
