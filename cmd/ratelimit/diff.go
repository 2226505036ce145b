package main
import "github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
var diffCommand = cli.Command{Name: "diff", New: checkCommand.New}
