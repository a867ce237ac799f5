import { defineConfig } from "vite";

// One ES module and one style sheet: the page loads them, and a notebook's widget imports the same module.
export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  define: { "process.env.NODE_ENV": '"production"' },
  build: {
    target: "es2021",
    outDir: "../src/sgfi/explorer/static",
    emptyOutDir: true,
    lib: { entry: "src/main.tsx", formats: ["es"], fileName: () => "assets/explorer.js" },
    rollupOptions: { output: { assetFileNames: "assets/explorer[extname]" } },
    minify: "esbuild",
    reportCompressedSize: false,
  },
});
