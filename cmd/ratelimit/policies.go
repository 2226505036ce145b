package main

import (
	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// loadPolicies reads a policy file, or standard input if it is -.
func loadPolicies(cmd *cobra.Command, file string) (map[string]core.Policy, error) {
	if file == "-" {
		return policyfile.Load(cmd.InOrStdin())
	}
	return policyfile.LoadFile(file)
}
