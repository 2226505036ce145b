package report

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Machine is what was measured on, and with.
type Machine struct {
	Processor  string   `json:"processor"`
	Cores      int      `json:"cores"`
	Kernel     string   `json:"kernel"`
	Go         string   `json:"go"`
	GOMAXPROCS int      `json:"gomaxprocs"`
	Redis      string   `json:"redis"`
	Contenders []string `json:"contenders"`
}

// ThisMachine describes the machine and this program.
func ThisMachine(redisVersion string) Machine {
	return Machine{
		Processor: processor(), Cores: runtime.NumCPU(),
		Kernel: runtime.GOOS + "/" + runtime.GOARCH + " " + kernel(),
		Go:     runtime.Version(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		Redis: redisVersion, Contenders: contenders(),
	}
}

// Name tells the machine from others.
func (m Machine) Name() string { return fmt.Sprintf("%s, %d cores", m.Processor, m.Cores) }

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(text)), "-") // what follows names a build
	return version
}

// measured are the modules whose version matters.
var measured = []string{
	"github.com/redis/go-redis/v9", "github.com/go-redis/redis_rate/v10", "github.com/redis/rueidis/rueidislimiter",
	"github.com/ulule/limiter/v3", "github.com/throttled/throttled/v2", "github.com/go-chi/httprate",
	"github.com/go-chi/httprate-redis", "github.com/JGLTechnologies/gin-rate-limit", "github.com/sethvargo/go-limiter",
	"github.com/didip/tollbooth/v8", "golang.org/x/time", "github.com/gin-gonic/gin", "github.com/labstack/echo/v5",
	"github.com/go-chi/chi/v5", "github.com/gofiber/fiber/v3", "github.com/valyala/fasthttp",
}

// contenders are the measured modules in this program, with their versions.
func contenders() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	versions := map[string]string{}
	for _, m := range info.Deps {
		versions[m.Path] = m.Version
	}
	var list []string
	for _, path := range measured {
		if v, ok := versions[path]; ok {
			list = append(list, strings.TrimPrefix(path, "github.com/")+" "+v)
		}
	}
	return list
}
