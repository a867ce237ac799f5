var he, x, Ze, I, Ae, et, tt, me, re, V, nt, Se, we, xe, rt, ae = {}, ce = [], xt = /acit|ex(?:s|g|n|p|$)|rph|grid|ows|mnc|ntw|ine[ch]|zoo|^ord|itera/i, pe = Array.isArray;
function R(e, t) {
  for (var n in t) e[n] = t[n];
  return e;
}
function Te(e) {
  e && e.parentNode && e.parentNode.removeChild(e);
}
function kt(e, t, n) {
  var i, s, o, c = {};
  for (o in t) o == "key" ? i = t[o] : o == "ref" ? s = t[o] : c[o] = t[o];
  if (arguments.length > 2 && (c.children = arguments.length > 3 ? he.call(arguments, 2) : n), typeof e == "function" && e.defaultProps != null) for (o in e.defaultProps) c[o] === void 0 && (c[o] = e.defaultProps[o]);
  return oe(e, c, i, s, null);
}
function oe(e, t, n, i, s) {
  var o = { type: e, props: t, key: n, ref: i, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: void 0, __v: s ?? ++Ze, __i: -1, __u: 0 };
  return s == null && x.vnode != null && x.vnode(o), o;
}
function U(e) {
  return e.children;
}
function ie(e, t) {
  this.props = e, this.context = t;
}
function F(e, t) {
  if (t == null) return e.__ ? F(e.__, e.__i + 1) : null;
  for (var n; t < e.__k.length; t++) if ((n = e.__k[t]) != null && n.__e != null) return n.__e;
  return typeof e.type == "function" ? F(e) : null;
}
function $t(e) {
  if (e.__P && e.__d) {
    var t = e.__v, n = t.__e, i = [], s = [], o = R({}, t);
    o.__v = t.__v + 1, x.vnode && x.vnode(o), Pe(e.__P, o, t, e.__n, e.__P.namespaceURI, 32 & t.__u ? [n] : null, i, n ?? F(t), !!(32 & t.__u), s), o.__v = t.__v, o.__.__k[o.__i] = o, at(i, o, s), t.__e = t.__ = null, o.__e != n && ot(o);
  }
}
function ot(e) {
  if ((e = e.__) != null && e.__c != null) return e.__e = e.__c.base = null, e.__k.some(function(t) {
    if (t != null && t.__e != null) return e.__e = e.__c.base = t.__e;
  }), ot(e);
}
function ke(e) {
  (!e.__d && (e.__d = !0) && I.push(e) && !de.__r++ || Ae != x.debounceRendering) && ((Ae = x.debounceRendering) || et)(de);
}
function de() {
  try {
    for (var e, t = 1; I.length; ) I.length > t && I.sort(tt), e = I.shift(), t = I.length, $t(e);
  } finally {
    I.length = de.__r = 0;
  }
}
function it(e, t, n, i, s, o, c, d, u, a, p) {
  var f, l, h, g, y, b, v = i && i.__k || ce, _ = t.length;
  for (u = qt(n, t, v, u, _), f = 0; f < _; f++) (h = n.__k[f]) != null && (l = h.__i != -1 && v[h.__i] || ae, h.__i = f, b = Pe(e, h, l, s, o, c, d, u, a, p), g = h.__e, h.ref && l.ref != h.ref && (l.ref && Me(l.ref, null, h), p.push(h.ref, h.__c || g, h)), y == null && g != null && (y = g), 4 & h.__u ? (u = st(h, u, e), l.__e && (l.__e = null)) : typeof h.type == "function" && b !== void 0 ? u = b : g && (u = g.nextSibling), h.__u &= -7);
  return n.__e = y, u;
}
function qt(e, t, n, i, s) {
  var o, c, d, u, a, p = n.length, f = p, l = 0;
  for (e.__k = new Array(s), o = 0; o < s; o++) (c = t[o]) != null && typeof c != "boolean" && typeof c != "function" ? (typeof c == "string" || typeof c == "number" || typeof c == "bigint" || c.constructor == String ? c = e.__k[o] = oe(null, c, null, null, null) : pe(c) ? c = e.__k[o] = oe(U, { children: c }, null, null, null) : c.constructor === void 0 && c.__b > 0 ? c = e.__k[o] = oe(c.type, c.props, c.key, c.ref ? c.ref : null, c.__v) : e.__k[o] = c, u = o + l, c.__ = e, c.__b = e.__b + 1, d = null, (a = c.__i = Ct(c, n, u, f)) != -1 && (f--, (d = n[a]) && (d.__u |= 2)), d == null || d.__v == null ? (a == -1 && (s > p ? l-- : s < p && l++), typeof c.type != "function" && (c.__u |= 4)) : a != u && (a == u - 1 ? l-- : a == u + 1 ? l++ : (a > u ? l-- : l++, c.__u |= 4))) : e.__k[o] = null;
  if (f) for (o = 0; o < p; o++) (d = n[o]) != null && (2 & d.__u) == 0 && (d.__e == i && (i = F(d)), dt(d, d));
  return i;
}
function st(e, t, n) {
  var i, s;
  if (typeof e.type == "function") {
    for (i = e.__k, s = 0; i && s < i.length; s++) i[s] && (i[s].__ = e, t = st(i[s], t, n));
    return t;
  }
  e.__e != t && (t && e.type && !t.parentNode && (t = F(e)), t = n.insertBefore(e.__e, t || null));
  do
    t = t && t.nextSibling;
  while (t != null && t.nodeType == 8);
  return t;
}
function Ct(e, t, n, i) {
  var s, o, c, d = e.key, u = e.type, a = t[n], p = a != null && (2 & a.__u) == 0;
  if (a === null && d == null || p && d == a.key && u == a.type) return n;
  if (i > (p ? 1 : 0)) {
    for (s = n - 1, o = n + 1; s >= 0 || o < t.length; ) if ((a = t[c = s >= 0 ? s-- : o++]) != null && (2 & a.__u) == 0 && d == a.key && u == a.type) return c;
  }
  return -1;
}
function Ne(e, t, n) {
  t[0] == "-" ? e.setProperty(t, n ?? "") : e[t] = n == null ? "" : typeof n != "number" || xt.test(t) ? n : n + "px";
}
function te(e, t, n, i, s) {
  var o, c;
  e: if (t == "style") if (typeof n == "string") e.style.cssText = n;
  else {
    if (typeof i == "string" && (e.style.cssText = i = ""), i) for (t in i) n && t in n || Ne(e.style, t, "");
    if (n) for (t in n) i && n[t] == i[t] || Ne(e.style, t, n[t]);
  }
  else if (t[0] == "o" && t[1] == "n") o = t != (t = t.replace(nt, "$1")), c = t.toLowerCase(), t = c in e || t == "onFocusOut" || t == "onFocusIn" ? c.slice(2) : t.slice(2), e.l || (e.l = {}), e.l[t + o] = n, n ? i ? n[V] = i[V] : (n[V] = Se, e.addEventListener(t, o ? xe : we, o)) : e.removeEventListener(t, o ? xe : we, o);
  else {
    if (s == "http://www.w3.org/2000/svg") t = t.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
    else if (t != "width" && t != "height" && t != "href" && t != "list" && t != "form" && t != "tabIndex" && t != "download" && t != "rowSpan" && t != "colSpan" && t != "role" && t != "popover" && t in e) try {
      e[t] = n ?? "";
      break e;
    } catch {
    }
    typeof n == "function" || (n == null || n === !1 && t[4] != "-" ? e.removeAttribute(t) : e.setAttribute(t, t == "popover" && n == 1 ? "" : n));
  }
}
function Oe(e) {
  return function(t) {
    if (this.l) {
      var n = this.l[t.type + e];
      if (t[re] == null) t[re] = Se++;
      else if (t[re] < n[V]) return;
      return n(x.event ? x.event(t) : t);
    }
  };
}
function Pe(e, t, n, i, s, o, c, d, u, a) {
  var p, f, l, h, g, y, b, v, _, m, k, N, M, E, T, w, P = t.type;
  if (t.constructor !== void 0) return null;
  128 & n.__u && (u = !!(32 & n.__u), o = [d = t.__e = n.__e]), (p = x.__b) && p(t);
  e: if (typeof P == "function") {
    f = c.length;
    try {
      if (_ = t.props, m = P.prototype && P.prototype.render, k = (p = P.contextType) && i[p.__c], N = p ? k ? k.props.value : p.__ : i, n.__c ? v = (l = t.__c = n.__c).__ = l.__E : (m ? t.__c = l = new P(_, N) : (t.__c = l = new ie(_, N), l.constructor = P, l.render = Tt), k && k.sub(l), l.state || (l.state = {}), l.__n = i, h = l.__d = !0, l.__h = [], l._sb = []), m && l.__s == null && (l.__s = l.state), m && P.getDerivedStateFromProps != null && (l.__s == l.state && (l.__s = R({}, l.__s)), R(l.__s, P.getDerivedStateFromProps(_, l.__s))), g = l.props, y = l.state, l.__v = t, h) m && P.getDerivedStateFromProps == null && l.componentWillMount != null && l.componentWillMount(), m && l.componentDidMount != null && l.__h.push(l.componentDidMount);
      else {
        if (m && P.getDerivedStateFromProps == null && _ !== g && l.componentWillReceiveProps != null && l.componentWillReceiveProps(_, N), t.__v == n.__v || !l.__e && l.shouldComponentUpdate != null && l.shouldComponentUpdate(_, l.__s, N) === !1) {
          t.__v != n.__v && (l.props = _, l.state = l.__s, l.__d = !1), t.__e = n.__e, t.__k = n.__k, t.__k.some(function(z) {
            z && (z.__ = t);
          }), ce.push.apply(l.__h, l._sb), l._sb = [], l.__h.length && c.push(l), d = F(n);
          break e;
        }
        l.componentWillUpdate != null && l.componentWillUpdate(_, l.__s, N), m && l.componentDidUpdate != null && l.__h.push(function() {
          l.componentDidUpdate(g, y, b);
        });
      }
      if (l.context = N, l.props = _, l.__P = e, l.__e = !1, M = x.__r, E = 0, m) l.state = l.__s, l.__d = !1, M && M(t), p = l.render(l.props, l.state, l.context), ce.push.apply(l.__h, l._sb), l._sb = [];
      else do
        l.__d = !1, M && M(t), p = l.render(l.props, l.state, l.context), l.state = l.__s;
      while (l.__d && ++E < 25);
      l.state = l.__s, l.getChildContext != null && (i = R(R({}, i), l.getChildContext())), m && !h && l.getSnapshotBeforeUpdate != null && (b = l.getSnapshotBeforeUpdate(g, y)), T = p != null && p.type === U && p.key == null ? ct(p.props.children) : p, d = it(e, pe(T) ? T : [T], t, n, i, s, o, c, d, u, a), l.base = t.__e, t.__u &= -161, l.__h.length && c.push(l), v && (l.__E = l.__ = null);
    } catch (z) {
      if (c.length = f, t.__v = null, u || o != null) {
        if (z.then) {
          for (t.__u |= u ? 160 : 128; d && d.nodeType == 8 && d.nextSibling; ) d = d.nextSibling;
          o != null && (o[o.indexOf(d)] = null), t.__e = d;
        } else if (o != null) for (w = o.length; w--; ) Te(o[w]);
      } else t.__e = n.__e;
      t.__k == null && (t.__k = n.__k || []), z.then || lt(t), x.__e(z, t, n);
    }
  } else o == null && t.__v == n.__v ? (t.__k = n.__k, t.__e = n.__e) : d = t.__e = St(n.__e, t, n, i, s, o, c, u, a);
  return (p = x.diffed) && p(t), 128 & t.__u ? void 0 : d;
}
function lt(e) {
  e && (e.__c && (e.__c.__e = !0), e.__k && e.__k.some(lt));
}
function at(e, t, n) {
  for (var i = 0; i < n.length; i++) Me(n[i], n[++i], n[++i]);
  x.__c && x.__c(t, e), e.some(function(s) {
    try {
      e = s.__h, s.__h = [], e.some(function(o) {
        o.call(s);
      });
    } catch (o) {
      x.__e(o, s.__v);
    }
  });
}
function ct(e) {
  return typeof e != "object" || e == null || e.__b > 0 ? e : pe(e) ? e.map(ct) : e.constructor !== void 0 ? null : R({}, e);
}
function St(e, t, n, i, s, o, c, d, u) {
  var a, p, f, l, h, g, y, b = n.props || ae, v = t.props, _ = t.type;
  if (_ == "svg" ? s = "http://www.w3.org/2000/svg" : _ == "math" ? s = "http://www.w3.org/1998/Math/MathML" : s || (s = "http://www.w3.org/1999/xhtml"), o != null) {
    for (a = 0; a < o.length; a++) if ((h = o[a]) && "setAttribute" in h == !!_ && (_ ? h.localName == _ : h.nodeType == 3)) {
      e = h, o[a] = null;
      break;
    }
  }
  if (e == null) {
    if (_ == null) return document.createTextNode(v);
    e = document.createElementNS(s, _, v.is && v), d && (x.__m && x.__m(t, o), d = !1), o = null;
  }
  if (_ == null) b === v || d && e.data == v || (e.data = v);
  else {
    if (o = _ == "textarea" && v.defaultValue != null ? null : o && he.call(e.childNodes), !d && o != null) for (b = {}, a = 0; a < e.attributes.length; a++) b[(h = e.attributes[a]).name] = h.value;
    for (a in b) h = b[a], a == "dangerouslySetInnerHTML" ? f = h : a == "children" || a in v || a == "value" && "defaultValue" in v || a == "checked" && "defaultChecked" in v || te(e, a, null, h, s);
    for (a in v) h = v[a], a == "children" ? l = h : a == "dangerouslySetInnerHTML" ? p = h : a == "value" ? g = h : a == "checked" ? y = h : d && typeof h != "function" || b[a] === h || te(e, a, h, b[a], s);
    if (p) d || f && (p.__html == f.__html || p.__html == e.innerHTML) || (e.innerHTML = p.__html), t.__k = [];
    else if (f && (e.innerHTML = ""), it(t.type == "template" ? e.content : e, pe(l) ? l : [l], t, n, i, _ == "foreignObject" ? "http://www.w3.org/1999/xhtml" : s, o, c, o ? o[0] : n.__k && F(n, 0), d, u), o != null) for (a = o.length; a--; ) Te(o[a]);
    d && _ != "textarea" || (a = "value", _ == "progress" && g == null ? e.removeAttribute("value") : g != null && (g !== e[a] || _ == "progress" && !g || _ == "option" && g != b[a]) && te(e, a, g, b[a], s), a = "checked", y != null && y != e[a] && te(e, a, y, b[a], s));
  }
  return e;
}
function Me(e, t, n) {
  try {
    if (typeof e == "function") {
      var i = typeof e.__u == "function";
      i && e.__u(), i && t == null || (e.__u = e(t));
    } else e.current = t;
  } catch (s) {
    x.__e(s, n);
  }
}
function dt(e, t, n) {
  var i, s;
  if (x.unmount && x.unmount(e), (i = e.ref) && (i.current && i.current != e.__e || Me(i, null, t)), (i = e.__c) != null) {
    if (i.componentWillUnmount) try {
      i.componentWillUnmount();
    } catch (o) {
      x.__e(o, t);
    }
    i.base = i.__P = i.__n = null;
  }
  if (i = e.__k) for (s = 0; s < i.length; s++) i[s] && dt(i[s], t, n || typeof e.type != "function");
  n || Te(e.__e), e.__c = e.__ = e.__e = void 0;
}
function Tt(e, t, n) {
  return this.constructor(e, n);
}
function $e(e, t, n) {
  var i, s, o, c;
  t == document && (t = document.documentElement), x.__ && x.__(e, t), s = (i = !1) ? null : t.__k, o = [], c = [], Pe(t, e = t.__k = kt(U, null, [e]), s || ae, ae, t.namespaceURI, s ? null : t.firstChild ? he.call(t.childNodes) : null, o, s ? s.__e : t.firstChild, i, c), at(o, e, c), e.props.children = null;
}
function Pt(e) {
  function t(n) {
    var i, s;
    return this.getChildContext || (i = /* @__PURE__ */ new Set(), (s = {})[t.__c] = this, this.getChildContext = function() {
      return s;
    }, this.componentWillUnmount = function() {
      i = null;
    }, this.shouldComponentUpdate = function(o) {
      this.props.value != o.value && i.forEach(function(c) {
        c.__e = !0, ke(c);
      });
    }, this.sub = function(o) {
      i.add(o);
      var c = o.componentWillUnmount;
      o.componentWillUnmount = function() {
        i && i.delete(o), c && c.call(o);
      };
    }), n.children;
  }
  return t.__c = "__cC" + rt++, t.__ = e, t.Provider = t.__l = (t.Consumer = function(n, i) {
    return n.children(i);
  }).contextType = t, t;
}
he = ce.slice, x = { __e: function(e, t, n, i) {
  for (var s, o, c; t = t.__; ) if ((s = t.__c) && !s.__) try {
    if ((o = s.constructor) && o.getDerivedStateFromError != null && (s.setState(o.getDerivedStateFromError(e)), c = s.__d), s.componentDidCatch != null && (s.componentDidCatch(e, i || {}), c = s.__d), c) return s.__E = s;
  } catch (d) {
    e = d;
  }
  throw e;
} }, Ze = 0, ie.prototype.setState = function(e, t) {
  var n;
  n = this.__s != null && this.__s != this.state ? this.__s : this.__s = R({}, this.state), typeof e == "function" && (e = e(R({}, n), this.props)), e && R(n, e), e != null && this.__v && (t && this._sb.push(t), ke(this));
}, ie.prototype.forceUpdate = function(e) {
  this.__v && (this.__e = !0, e && this.__h.push(e), ke(this));
}, ie.prototype.render = U, I = [], et = typeof Promise == "function" ? Promise.prototype.then.bind(Promise.resolve()) : setTimeout, tt = function(e, t) {
  return e.__v.__b - t.__v.__b;
}, de.__r = 0, me = Math.random().toString(8), re = "__d" + me, V = "__a" + me, nt = /(PointerCapture)$|Capture$/i, Se = 0, we = Oe(!1), xe = Oe(!0), rt = 0;
var Mt = 0;
function r(e, t, n, i, s, o) {
  t || (t = {});
  var c, d, u = t;
  if ("ref" in u) for (d in u = {}, t) d == "ref" ? c = t[d] : u[d] = t[d];
  var a = { type: e, props: u, key: n, ref: c, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: void 0, __v: --Mt, __i: -1, __u: 0, __source: s, __self: o };
  if (typeof e == "function" && (c = e.defaultProps)) for (d in c) u[d] === void 0 && (u[d] = c[d]);
  return x.vnode && x.vnode(a), a;
}
var K, $, ge, Le, Y = 0, ut = [], S = x, Ee = S.__b, Re = S.__r, Ue = S.diffed, je = S.__c, De = S.unmount, Ie = S.__;
function _e(e, t) {
  S.__h && S.__h($, e, Y || t), Y = 0;
  var n = $.__H || ($.__H = { __: [], __h: [] });
  return e >= n.__.length && n.__.push({}), n.__[e];
}
function q(e) {
  return Y = 1, At(pt, e);
}
function At(e, t, n) {
  var i = _e(K++, 2);
  if (i.t = e, !i.__c && (i.__ = [pt(void 0, t), function(d) {
    var u = i.__N ? i.__N[0] : i.__[0], a = i.t(u, d);
    u !== a && (i.__N = [a, i.__[1]], i.__c.setState({}));
  }], i.__c = $, !$.__f)) {
    var s = function(d, u, a) {
      if (!i.__c.__H) return !0;
      var p = !1, f = i.__c.props !== d;
      if (i.__c.__H.__.some(function(h) {
        if (h.__N) {
          p = !0;
          var g = h.__[0];
          h.__ = h.__N, h.__N = void 0, g !== h.__[0] && (f = !0);
        }
      }), o) {
        var l = o.call(this, d, u, a);
        return p ? l || f : l;
      }
      return !p || f;
    };
    $.__f = !0;
    var o = $.shouldComponentUpdate, c = $.componentWillUpdate;
    $.componentWillUpdate = function(d, u, a) {
      if (this.__e) {
        var p = o;
        o = void 0, s(d, u, a), o = p;
      }
      c && c.call(this, d, u, a);
    }, $.shouldComponentUpdate = s;
  }
  return i.__N || i.__;
}
function O(e, t) {
  var n = _e(K++, 3);
  !S.__s && ht(n.__H, t) && (n.__ = e, n.u = t, $.__H.__h.push(n));
}
function fe(e) {
  return Y = 5, Z(function() {
    return { current: e };
  }, []);
}
function Z(e, t) {
  var n = _e(K++, 7);
  return ht(n.__H, t) && (n.__ = e(), n.__H = t, n.__h = e), n.__;
}
function He(e, t) {
  return Y = 8, Z(function() {
    return e;
  }, t);
}
function Nt(e) {
  var t = $.context[e.__c], n = _e(K++, 9);
  return n.c = e, t ? (n.__ == null && (n.__ = !0, t.sub($)), t.props.value) : e.__;
}
function Ot() {
  for (var e; e = ut.shift(); ) {
    var t = e.__H;
    if (e.__P && t) try {
      t.__h.some(se), t.__h.some(qe), t.__h = [];
    } catch (n) {
      t.__h = [], S.__e(n, e.__v);
    }
  }
}
S.__b = function(e) {
  $ = null, Ee && Ee(e);
}, S.__ = function(e, t) {
  e && t.__k && t.__k.__m && (e.__m = t.__k.__m), Ie && Ie(e, t);
}, S.__r = function(e) {
  Re && Re(e), K = 0;
  var t = ($ = e.__c).__H;
  t && (ge === $ ? (t.__h = [], $.__h = [], t.__.some(function(n) {
    n.__N && (n.__ = n.__N), n.u = n.__N = void 0;
  })) : (t.__h.some(se), t.__h.some(qe), t.__h = [], K = 0)), ge = $;
}, S.diffed = function(e) {
  Ue && Ue(e);
  var t = e.__c;
  t && t.__H && (t.__H.__h.length && (ut.push(t) !== 1 && Le === S.requestAnimationFrame || ((Le = S.requestAnimationFrame) || Lt)(Ot)), t.__H.__.some(function(n) {
    n.u && (n.__H = n.u, n.u = void 0);
  })), ge = $ = null;
}, S.__c = function(e, t) {
  t.some(function(n) {
    try {
      n.__h.some(se), n.__h = n.__h.filter(function(i) {
        return !i.__ || qe(i);
      });
    } catch (i) {
      t.some(function(s) {
        s.__h && (s.__h = []);
      }), t = [], S.__e(i, n.__v);
    }
  }), je && je(e, t);
}, S.unmount = function(e) {
  De && De(e);
  var t, n = e.__c;
  n && n.__H && (n.__H.__.some(function(i) {
    try {
      se(i);
    } catch (s) {
      t = s;
    }
  }), n.__H = void 0, t && S.__e(t, n.__v));
};
var Be = typeof requestAnimationFrame == "function";
function Lt(e) {
  var t, n = function() {
    clearTimeout(i), Be && cancelAnimationFrame(t), setTimeout(e);
  }, i = setTimeout(n, 35);
  Be && (t = requestAnimationFrame(n));
}
function se(e) {
  var t = $, n = e.__c;
  typeof n == "function" && (e.__c = void 0, n()), $ = t;
}
function qe(e) {
  var t = $;
  e.__c = e.__(), $ = t;
}
function ht(e, t) {
  return !e || e.length !== t.length || t.some(function(n, i) {
    return n !== e[i];
  });
}
function pt(e, t) {
  return typeof t == "function" ? t(e) : t;
}
class Q extends Error {
  constructor(t) {
    super(`expected ${t.expected}; got ${t.got}. ${t.todo}`), this.problem = t;
  }
}
const Fe = { expected: "the server to answer", got: "no connection", todo: "Is sgfi explore still running? Reload when it is." };
class Et {
  constructor(t) {
    this.token = t, this.page = !0, this.socket = null, this.waiting = /* @__PURE__ */ new Map(), this.next = 1, this.tries = 0;
  }
  async bytes(t, n) {
    let i;
    try {
      i = await fetch(t, { headers: { authorization: `Bearer ${this.token}` }, signal: n });
    } catch (s) {
      throw n?.aborted ? s : new Q(Fe);
    }
    if (!i.ok) throw new Q(await We(i));
    return { body: await i.arrayBuffer(), type: i.headers.get("content-type") ?? "" };
  }
  async upload(t, n) {
    const i = await fetch(`/api/inputs?name=${encodeURIComponent(n)}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.token}`, "content-type": t.type || "application/octet-stream" },
      body: t
    });
    if (!i.ok) throw new Q(await We(i));
    return await i.json();
  }
  live(t, n) {
    const i = this.next++, s = JSON.stringify({ id: i, ask: t });
    this.waiting.set(i, { text: s, heard: n });
    const o = this.connected();
    return o.readyState === WebSocket.OPEN && o.send(s), () => {
      this.waiting.delete(i) && this.socket?.readyState === WebSocket.OPEN && this.socket.send(JSON.stringify({ id: i, cancel: !0 }));
    };
  }
  connected() {
    if (this.socket && this.socket.readyState <= WebSocket.OPEN) return this.socket;
    const t = new WebSocket(`ws://${location.host}/live?token=${encodeURIComponent(this.token)}`);
    return this.socket = t, t.onopen = () => {
      this.tries = 0;
      for (const { text: n } of this.waiting.values()) t.send(n);
    }, t.onmessage = (n) => {
      const i = JSON.parse(n.data);
      this.waiting.get(i.id)?.heard(i);
    }, t.onclose = () => {
      if (this.socket === t && (this.socket = null, !!this.waiting.size))
        if (this.tries++ < 5) setTimeout(() => this.waiting.size && this.connected(), 400 * this.tries);
        else for (const [n, { heard: i }] of this.waiting) i({ id: n, state: "failed", error: Fe });
    }, t;
  }
}
async function We(e) {
  try {
    return (await e.json()).error;
  } catch {
    return { expected: "an answer", got: `status ${e.status}`, todo: "Reload the page." };
  }
}
class Rt {
  constructor(t) {
    this.model = t, this.page = !1, this.next = 1, this.replies = /* @__PURE__ */ new Map(), this.events = /* @__PURE__ */ new Map(), this.heard = (n, i) => {
      n.reply !== void 0 ? (this.replies.get(n.reply)?.(n, i), this.replies.delete(n.reply)) : n.live && this.events.get(n.live.id)?.(n.live);
    }, t.on("msg:custom", this.heard);
  }
  close() {
    this.model.off("msg:custom", this.heard);
  }
  request(t, n = []) {
    const i = this.next++;
    return new Promise((s, o) => {
      this.replies.set(i, (c, d) => {
        const u = d[0], a = u ? u.buffer.slice(u.byteOffset, u.byteOffset + u.byteLength) : new ArrayBuffer(0);
        c.status < 400 ? s({ body: a, type: c.type }) : o(new Q(JSON.parse(new TextDecoder().decode(a)).error));
      }), this.model.send({ request: i, ...t }, void 0, n);
    });
  }
  bytes(t) {
    return this.request({ path: t });
  }
  async upload(t, n) {
    const { body: i } = await this.request({ upload: n, kind: t.type.startsWith("text/plain") ? "text" : "picture" }, [await t.arrayBuffer()]);
    return JSON.parse(new TextDecoder().decode(i));
  }
  live(t, n) {
    const i = this.next++;
    return this.events.set(i, n), this.model.send({ live: { id: i, ask: t } }), () => {
      this.events.delete(i) && this.model.send({ live: { id: i, cancel: !0 } });
    };
  }
}
async function Ce(e, t, n) {
  const { body: i } = await e.bytes(t, n);
  return JSON.parse(new TextDecoder().decode(i));
}
const _t = Pt(null), C = () => Nt(_t), ze = {};
function ee(e) {
  const { transport: t } = C(), [n, i] = q({ key: "", stages: ze }), s = e ? JSON.stringify(e) : "";
  return O(() => {
    if (e)
      return t.live(e, (o) => {
        const c = o.stage ? [o.stage] : e.stages;
        i((d) => {
          const u = d.key === s ? { ...d.stages } : {};
          for (const a of c)
            u[a] = { state: o.state, steps: o.steps ?? u[a]?.steps ?? 0, facts: o.facts, error: o.error };
          return { key: s, stages: u };
        });
      });
  }, [s, t]), n.key === s ? n.stages : ze;
}
function B(e) {
  const { transport: t } = C(), [n, i] = q({ path: null });
  return O(() => {
    if (!e) return;
    const s = new AbortController();
    return Ce(t, e, s.signal).then(
      (o) => !s.signal.aborted && i({ path: e, data: o }),
      (o) => !s.signal.aborted && i({ path: e, problem: G(o) })
    ), () => s.abort();
  }, [e, t]), n.path === e ? n : {};
}
function G(e) {
  return e instanceof Q ? e.problem : { expected: "an answer", got: String(e), todo: "Reload the page." };
}
const J = /* @__PURE__ */ new Map();
async function Ut(e, t, n) {
  const i = J.get(t);
  if (i) return i;
  const { body: s, type: o } = await e.bytes(t, n), c = URL.createObjectURL(new Blob([s], { type: o }));
  if (J.set(t, c), J.size > 600) {
    const [d, u] = J.entries().next().value;
    J.delete(d), URL.revokeObjectURL(u);
  }
  return c;
}
function ft(e) {
  const { transport: t } = C(), [n, i] = q({ path: null });
  return O(() => {
    if (!e) return;
    const s = new AbortController();
    return Ut(t, e, s.signal).then(
      (o) => !s.signal.aborted && i({ path: e, url: o }),
      (o) => !s.signal.aborted && i({ path: e, problem: G(o) })
    ), () => s.abort();
  }, [e, t]), e ? n.path === e ? n : { url: J.get(e) } : {};
}
function mt(e, t) {
  const n = fe(null), { url: i, problem: s } = ft(e);
  return e && i && (n.current = { path: e, url: i, about: t }), { shown: n.current, problem: s };
}
function H({ path: e, alt: t, className: n = "" }) {
  const { url: i, problem: s } = ft(e);
  if (i) return /* @__PURE__ */ r("img", { class: n, src: i, alt: t, "data-path": e, draggable: !1 });
  const o = s ? `could not be drawn: ${s.got}` : "on its way";
  return /* @__PURE__ */ r("div", { class: `blank ${n}`, role: "img", "aria-label": t ? `${t}, ${o}` : o, title: s && o });
}
function L({ problem: e }) {
  return /* @__PURE__ */ r("div", { class: "trouble", role: "alert", children: [
    /* @__PURE__ */ r("p", { children: [
      /* @__PURE__ */ r("b", { children: "Expected" }),
      " ",
      e.expected
    ] }),
    /* @__PURE__ */ r("p", { children: [
      /* @__PURE__ */ r("b", { children: "Got" }),
      " ",
      e.got
    ] }),
    /* @__PURE__ */ r("p", { children: e.todo })
  ] });
}
const X = {
  m: "",
  x: "",
  q: "",
  v: "",
  by: "channels",
  sort: "activation",
  n: 24,
  s: !1,
  w: "natural",
  bm: "",
  bx: "",
  bq: "",
  bs: "raw",
  p: []
}, jt = {
  v: ["grid", "compare", "decide", "tokens"],
  by: ["channels", "cells"],
  sort: ["index", "activation", "contribution", "selectivity"],
  w: ["natural", "signed"],
  bs: ["raw", "first", "final"]
};
function gt(e) {
  const t = [];
  for (const n of Object.keys(X)) {
    const i = e[n];
    if (JSON.stringify(i) === JSON.stringify(X[n])) continue;
    const s = Array.isArray(i) ? i.join("|") : i === !0 ? "1" : String(i);
    t.push(`${n}=${encodeURIComponent(s).replace(/%3A/g, ":").replace(/%40/g, "@").replace(/%2C/g, ",")}`);
  }
  return t.join("&");
}
function Je(e) {
  const t = { ...X, p: [] };
  for (const n of e.replace(/^#/, "").split("&")) {
    const i = n.indexOf("=");
    if (i < 0) continue;
    const s = n.slice(0, i);
    let o = "";
    try {
      o = decodeURIComponent(n.slice(i + 1));
    } catch {
      continue;
    }
    const c = jt[s];
    c && !c.includes(o) || (s === "p" ? t.p = o.split("|").filter(Boolean).slice(0, 24) : s === "s" ? t.s = o === "1" : s === "n" ? t.n = Math.min(2048, Math.max(1, Number.parseInt(o, 10) || X.n)) : s in X && (t[s] = o));
  }
  return t;
}
function j(e) {
  const [t, n = ""] = e.split("@", 2), i = t.search(/[:%]/);
  return i < 0 ? { node: t, units: "", coords: n } : { node: t.slice(0, i), units: t.slice(i), coords: n };
}
function ue(e) {
  return e.node + e.units + (e.coords ? `@${e.coords}` : "");
}
function W(e, t) {
  const { node: n } = j(t);
  if (!e) return;
  const i = n || e.target;
  return e.nodes.find((s) => s.name === i || s.aliases.includes(i));
}
function bt(e, t, n) {
  const i = j(e), s = /^:(\d+)$/.exec(i.units), o = s && Number(s[1]) < n.channels ? i.units : "";
  let c = "";
  return /^\d+(,\d+)*$/.test(i.coords) && t && t.coords.length === n.coords.length && (c = i.coords.split(",").map((u, a) => {
    const p = Math.floor((Number(u) + 0.5) * n.coords[a] / t.coords[a]);
    return Math.min(p, n.coords[a] - 1);
  }).join(",")), ue({ node: n.name, units: o, coords: c });
}
function Dt(e, t, n) {
  const i = j(e), s = /^:(\d+)$/.exec(i.units);
  if (!s && /^\d+(,\d+)*$/.test(i.coords)) {
    let d = i.coords.split(",").map(Number).reduce((p, f, l) => p * t.coords[l] + f, 0);
    const u = t.coords.reduce((p, f) => p * f, 1);
    d = (d + n + u) % u;
    const a = [];
    for (let p = t.coords.length - 1; p >= 0; p--)
      a.unshift(d % t.coords[p]), d = Math.floor(d / t.coords[p]);
    return ue({ ...i, node: t.name, coords: a.join(",") });
  }
  const o = s ? Number(s[1]) : n > 0 ? -1 : 0;
  return ue({ ...i, node: t.name, units: `:${(o + n + t.channels) % t.channels}` });
}
function vt(e) {
  return [e.channels, ...e.coords].join(" × ");
}
function A(e, t, n, i = {}) {
  const s = new URLSearchParams(i).toString();
  return `/${e}/${t.m}/${t.x}/${encodeURIComponent(t.q)}.${n}${s ? `?${s}` : ""}`;
}
const Ke = [["final", "answer"], ["first", "gradient under the prior"], ["raw", "plain gradient"]];
function It() {
  const { view: e, models: t, inputs: n, model: i, set: s } = C(), o = { m: e.bm || e.m, x: e.bx || e.x, q: e.bq || e.q, s: e.bs }, c = t.find((m) => m.id === o.m), [d, u] = q(o.q);
  O(() => u(o.q), [o.q]);
  const a = ee({ lens: e.m, input: e.x, query: e.q, stages: ["final"] }), p = ee({ lens: o.m, input: o.x, query: o.q, stages: [o.s] }), f = a.final?.state === "done" && p[o.s]?.state === "done", l = `${o.m}~${o.x}~${o.s}~${o.q}`, h = `${e.m}~${e.x}~final~${e.q}`, g = e.w === "signed" ? { view: "signed" } : {}, y = B(f ? A("inverse", e, "json", { with: l }) : null), b = (m) => n.find((k) => k.sha === m)?.name ?? "input", v = p[o.s]?.error ?? y.problem, _ = n.filter((m) => m.lenses.includes(o.m));
  return /* @__PURE__ */ r("div", { class: "compare", children: [
    /* @__PURE__ */ r("div", { class: "toolbar", children: [
      /* @__PURE__ */ r("b", { children: "B" }),
      /* @__PURE__ */ r("label", { children: [
        "estimator",
        " ",
        /* @__PURE__ */ r("select", { value: o.m, onChange: (m) => s({ bm: m.currentTarget.value }), children: t.map((m) => /* @__PURE__ */ r("option", { value: m.id, children: m.title }, m.id)) })
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "stage",
        " ",
        /* @__PURE__ */ r("select", { value: o.s, onChange: (m) => s({ bs: m.currentTarget.value }), children: Ke.map(([m, k]) => /* @__PURE__ */ r("option", { value: m, children: k }, m)) })
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "input",
        " ",
        /* @__PURE__ */ r("select", { value: o.x, onChange: (m) => s({ bx: m.currentTarget.value }), children: _.map((m) => /* @__PURE__ */ r("option", { value: m.sha, children: m.name }, m.sha)) })
      ] }),
      /* @__PURE__ */ r("form", { onSubmit: (m) => {
        m.preventDefault(), s({ bq: d.trim() });
      }, children: /* @__PURE__ */ r("label", { children: [
        "query ",
        /* @__PURE__ */ r("input", { value: d, spellcheck: !1, onInput: (m) => u(m.currentTarget.value) })
      ] }) })
    ] }),
    v && /* @__PURE__ */ r(L, { problem: v }),
    i?.picture && c?.picture && !v && /* @__PURE__ */ r("div", { class: "three", children: [
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(H, { path: f ? A("inverse", e, "png", { with: l, ...g }) : null, alt: `A: ${e.q}`, className: "side-a" }),
        /* @__PURE__ */ r("figcaption", { children: [
          /* @__PURE__ */ r("b", { children: "A" }),
          " ",
          /* @__PURE__ */ r("span", { children: [
            b(e.x),
            " · ",
            e.q
          ] })
        ] })
      ] }),
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(H, { path: f ? A("inverse", o, "png", { stage: o.s, with: h, ...g }) : null, alt: `B: ${o.q}`, className: "side-b" }),
        /* @__PURE__ */ r("figcaption", { children: [
          /* @__PURE__ */ r("b", { children: "B" }),
          " ",
          /* @__PURE__ */ r("span", { children: [
            b(o.x),
            " · ",
            o.q,
            " · ",
            Ke.find(([m]) => m === o.s)?.[1]
          ] })
        ] })
      ] }),
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(H, { path: f ? A("inverse", e, "png", { minus: l }) : null, alt: "A minus B", className: "minus" }),
        /* @__PURE__ */ r("figcaption", { children: [
          /* @__PURE__ */ r("b", { children: "A − B" }),
          " ",
          /* @__PURE__ */ r("span", { children: "signed: red where A is brighter" })
        ] })
      ] })
    ] }),
    y.data && /* @__PURE__ */ r("p", { class: "note", role: "status", "data-cosine": y.data.cosine_between, children: [
      "Cosine of A with B ",
      y.data.cosine_between.toFixed(3),
      ".",
      " ",
      y.data.scaled ? "They have different units: both are brought to length one." : `Lengths ${y.data.lengths?.map((m) => m.toPrecision(3)).join(" and ")}; one colour scale.`
    ] })
  ] });
}
const be = {
  positive: "for the decision",
  negative: "against it",
  matched: "control: as active",
  random: "control: random"
};
function Ht() {
  const { view: e, model: t, set: n } = C(), i = W(t, e.q), { data: s, problem: o } = B(i ? A("decide", { ...e, q: i.name }, "json") : null);
  if (o) return /* @__PURE__ */ r(L, { problem: o });
  if (!s || !i) return /* @__PURE__ */ r("p", { class: "note", role: "status", children: [
    "Ranking the channels of ",
    i?.name,
    " …"
  ] });
  const c = Math.max(...s.rows.map((a) => Math.abs(a.drop)), Math.abs(s.decision.margin)), d = [...new Set(s.rows.map((a) => a.size))], u = s.rows.filter((a) => a.kind === "positive" || a.kind === "negative");
  return /* @__PURE__ */ r("div", { class: "decide", children: [
    /* @__PURE__ */ r("p", { class: "note", children: [
      "Class ",
      s.decision.top,
      " (",
      (100 * s.decision.probability).toFixed(0),
      " %) before class ",
      s.decision.second,
      "; margin ",
      s.decision.margin.toFixed(2),
      " in logits."
    ] }),
    /* @__PURE__ */ r("div", { class: "branches", children: [
      /* @__PURE__ */ r("section", { "aria-label": "Inversion", children: [
        /* @__PURE__ */ r("h3", { children: [
          "What the groups identify ",
          /* @__PURE__ */ r("small", { children: "inversion; never fed back to the model" })
        ] }),
        /* @__PURE__ */ r("ul", { class: "tiles", children: u.map((a) => /* @__PURE__ */ r("li", { class: "tile", children: [
          /* @__PURE__ */ r("button", { type: "button", class: "pick", "aria-label": `Look at ${a.query}`, "data-query": a.query, onClick: () => n({ q: a.query }), children: /* @__PURE__ */ r(Bt, { query: a.query }) }),
          /* @__PURE__ */ r("span", { class: "under wrap", children: [
            a.size,
            " ",
            be[a.kind],
            /* @__PURE__ */ r("br", {}),
            /* @__PURE__ */ r("code", { children: j(a.query).units })
          ] })
        ] }, a.kind + a.size)) })
      ] }),
      /* @__PURE__ */ r("section", { "aria-label": "Intervention", children: [
        /* @__PURE__ */ r("h3", { children: [
          "What zeroing them does ",
          /* @__PURE__ */ r("small", { children: "the original model, no inverse involved" })
        ] }),
        /* @__PURE__ */ r("table", { children: [
          /* @__PURE__ */ r("thead", { children: /* @__PURE__ */ r("tr", { children: [
            /* @__PURE__ */ r("th", { scope: "col", children: "channels" }),
            d.map((a) => /* @__PURE__ */ r("th", { scope: "col", children: a }, a))
          ] }) }),
          /* @__PURE__ */ r("tbody", { children: Object.keys(be).map((a) => /* @__PURE__ */ r("tr", { children: [
            /* @__PURE__ */ r("th", { scope: "row", children: be[a] }),
            d.map((p) => {
              const f = s.rows.find((l) => l.kind === a && l.size === p);
              return /* @__PURE__ */ r("td", { children: f && /* @__PURE__ */ r(U, { children: [
                /* @__PURE__ */ r("b", { children: f.drop.toFixed(2) }),
                f.flipped > 0 && /* @__PURE__ */ r("small", { children: [
                  " ",
                  f.groups > 1 ? `${Math.round(100 * f.flipped)} % flip` : "flips"
                ] }),
                /* @__PURE__ */ r("span", { class: f.drop < 0 ? "score minus" : "score", children: /* @__PURE__ */ r("span", { style: { width: `${100 * Math.abs(f.drop) / c}%` } }) })
              ] }) }, p);
            })
          ] }, a)) })
        ] }),
        /* @__PURE__ */ r("p", { class: "note", children: [
          "Drop of the margin when a group of that size is set to zero; negative where the margin grew. Random: mean of ",
          s.rows.find((a) => a.kind === "random")?.groups,
          " groups."
        ] })
      ] })
    ] })
  ] });
}
function Bt({ query: e }) {
  const { view: t, model: n } = C(), { final: i } = ee({ lens: t.m, input: t.x, query: e, stages: ["final"], background: !0 });
  return n?.picture ? /* @__PURE__ */ r(H, { path: i?.state === "done" ? A("inverse", { ...t, q: e }, "png") : null, alt: "" }) : null;
}
function Ft() {
  const { view: e, model: t, transport: n, say: i } = C(), [s, o] = q(null), c = { stage: e.s ? "share" : "final", ...e.w === "signed" ? { view: "signed" } : {} }, d = (l) => A(l === "png" || l === "safetensors" ? "inverse" : "export", e, l, c), u = `${e.q.replace(/[^\w.-]+/g, "_")}`, a = async (l) => {
    o(null);
    try {
      const { body: h, type: g } = await n.bytes(d(l)), y = document.createElement("a");
      y.href = URL.createObjectURL(new Blob([h], { type: g })), y.download = `${u}.${l}`, y.click(), setTimeout(() => URL.revokeObjectURL(y.href), 1e4);
    } catch (h) {
      o(G(h));
    }
  }, p = async (l) => {
    o(null);
    try {
      const { body: h } = await n.bytes(d(l));
      await navigator.clipboard.writeText(new TextDecoder().decode(h)), i(l === "py" ? "Python lines copied" : "Command copied");
    } catch (h) {
      o(G(h));
    }
  }, f = t?.picture ? ["png", "svg", "html", "safetensors"] : ["html", "safetensors"];
  return /* @__PURE__ */ r("section", { class: "export", "aria-label": "Export", children: [
    /* @__PURE__ */ r("span", { children: "Save" }),
    f.map((l) => /* @__PURE__ */ r("button", { type: "button", onClick: () => void a(l), children: l === "html" ? "single HTML file" : l.toUpperCase() }, l)),
    /* @__PURE__ */ r("span", { children: "Copy" }),
    /* @__PURE__ */ r("button", { type: "button", onClick: () => void p("py"), children: "Python lines" }),
    /* @__PURE__ */ r("button", { type: "button", onClick: () => void p("sh"), children: "command line" }),
    /* @__PURE__ */ r("code", { class: "again", children: [
      'sgfi export "#',
      gt({ ...e, p: [], v: "" }),
      '"'
    ] }),
    s && /* @__PURE__ */ r(L, { problem: s })
  ] });
}
const ve = 24, Ge = /* @__PURE__ */ new Set();
function Wt() {
  const { view: e, model: t, set: n } = C(), i = W(t, e.q), s = i ? { m: e.m, x: e.x, q: i.name } : null, o = B(s ? A("scores", s, "json") : null), c = `${e.m} ${e.x}`, [d, u] = q({ about: c, queries: Ge }), a = d.about === c ? d.queries : Ge, p = (w) => u((P) => ({ about: c, queries: /* @__PURE__ */ new Set([...P.about === c ? P.queries : [], w]) })), f = i && i.coords.length === 0, l = f ? "channels" : e.by, h = Z(() => zt(i?.name ?? "", o.data, l), [i?.name, o.data, l]), g = o.data?.[l], y = Z(() => Jt(h, e.sort === "contribution" ? g?.contribution : e.sort === "index" ? void 0 : g?.activation).slice(0, e.n), [h, g, e.sort, e.n]), b = y.filter((w) => a.has(w.query)).map((w) => w.query), v = B(
    s && e.sort === "selectivity" && b.length > 1 && b.length === y.length ? A("likeness", { ...s, q: b.join("|") }, "json") : null
  );
  if (!t || !i) return null;
  if (o.problem) return /* @__PURE__ */ r(L, { problem: o.problem });
  const _ = v.data?.selectivity, m = _ ? [...y].sort((w, P) => (_[P.query] ?? 0) - (_[w.query] ?? 0)) : y, k = (w) => e.sort === "selectivity" ? _?.[w.query] : e.sort === "contribution" ? g?.contribution?.[w.index] : g?.activation[w.index], N = Math.max(...m.map((w) => Math.abs(k(w) ?? 0)), 1e-9), M = (w, P) => /* @__PURE__ */ r(
    Kt,
    {
      unit: w,
      pinned: P,
      score: k(w),
      most: N,
      now: w.query === e.q,
      ended: () => p(w.query)
    },
    w.query
  ), E = e.p.map((w) => ({ query: w, label: w, index: -1 })), T = ["activation", "contribution", "selectivity", "index"];
  return /* @__PURE__ */ r("div", { class: "grid-tab", children: [
    /* @__PURE__ */ r("div", { class: "toolbar", children: [
      /* @__PURE__ */ r("fieldset", { children: [
        /* @__PURE__ */ r("legend", { children: "units" }),
        ["channels", "cells"].map((w) => /* @__PURE__ */ r("button", { type: "button", disabled: w === "cells" && !!f, "aria-pressed": l === w, onClick: () => n({ by: w, n: ve }), children: w }, w))
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "sort by",
        " ",
        /* @__PURE__ */ r("select", { value: e.sort, onChange: (w) => n({ sort: w.currentTarget.value }), children: T.map((w) => /* @__PURE__ */ r("option", { value: w, disabled: w === "contribution" && !!g && !g.contribution, children: w === "contribution" ? "decision contribution" : w }, w)) })
      ] }),
      /* @__PURE__ */ r("span", { class: "count", role: "status", children: [
        b.length,
        " of ",
        m.length,
        " shown, ",
        h.length,
        " in all"
      ] })
    ] }),
    E.length > 0 && /* @__PURE__ */ r(U, { children: [
      /* @__PURE__ */ r("h3", { class: "pins", children: "Pinned" }),
      /* @__PURE__ */ r("ul", { class: "tiles", "aria-label": "Pinned", children: E.map((w) => M(w, !0)) })
    ] }),
    /* @__PURE__ */ r("ul", { class: "tiles", "aria-label": `${l} of ${i.name}`, children: m.map((w) => M(w, !1)) }),
    m.length < h.length && /* @__PURE__ */ r("button", { type: "button", class: "more", onClick: () => n({ n: Math.min(h.length, e.n + ve) }, !0), children: [
      ve,
      " more"
    ] }),
    e.sort === "selectivity" && /* @__PURE__ */ r("p", { class: "note", children: "Selectivity: one minus the mean absolute cosine with the other answers shown here. Known when all of them are." }),
    e.sort === "contribution" && /* @__PURE__ */ r("p", { class: "note", children: "Contribution: activation times gradient of the margin between the first two classes, to first order." })
  ] });
}
function zt(e, t, n) {
  return !t || t.node !== e ? [] : n === "channels" ? t.channels.activation.map((i, s) => ({ query: `${e}:${s}`, label: `:${s}`, index: s })) : t.cells.at.map((i, s) => ({ query: `${e}@${i.join(",")}`, label: `@${i.join(",")}`, index: s }));
}
function Jt(e, t) {
  return t ? [...e].sort((n, i) => t[i.index] - t[n.index] || n.index - i.index) : e;
}
function Kt(e) {
  const { view: t, model: n, set: i } = C(), { unit: s } = e, o = ee({ lens: t.m, input: t.x, query: s.query, stages: n?.picture ? ["preview", "final"] : ["final"], background: !0 }), { state: c, facts: d, error: u } = o.final ?? {}, a = c === "done" ? "final" : o.preview?.state === "done" ? "preview" : "", p = a && n?.picture ? A("inverse", { ...t, q: s.query }, "png", { stage: a, ...t.w === "signed" ? { view: "signed" } : {} }) : null, { shown: f } = mt(p, { of: `${t.m} ${t.x}`, stage: a }), l = f?.about.of === `${t.m} ${t.x}` ? f : null, h = n?.picture ? l?.about.stage ?? "none" : a;
  O(() => {
    c === "done" && e.ended();
  }, [c, t.m, t.x]);
  const g = d?.profile, y = () => i({ p: e.pinned || t.p.includes(s.query) ? t.p.filter((b) => b !== s.query) : [...t.p, s.query] }, !0);
  return /* @__PURE__ */ r("li", { class: e.now ? "tile now" : "tile", children: [
    /* @__PURE__ */ r("button", { type: "button", class: "pick", "aria-current": e.now ? "true" : void 0, "aria-label": `Look at ${s.query}`, title: s.query, "data-query": s.query, "data-stage": h, onClick: () => i({ q: s.query }), children: [
      n?.picture && (l ? /* @__PURE__ */ r("img", { class: h, src: l.url, alt: "", "data-path": l.path, draggable: !1 }) : /* @__PURE__ */ r("div", { class: "blank" })),
      n?.text && /* @__PURE__ */ r(Gt, { values: g }),
      u && /* @__PURE__ */ r("span", { class: "wrong", title: u.got, children: "!" })
    ] }),
    /* @__PURE__ */ r("span", { class: "under", children: [
      /* @__PURE__ */ r("code", { children: s.label }),
      h === "preview" && /* @__PURE__ */ r("small", { title: "Plain gradient, not the answer", children: "preview" }),
      e.score !== void 0 && /* @__PURE__ */ r("span", { class: e.score < 0 ? "score minus" : "score", title: e.score.toPrecision(3), children: /* @__PURE__ */ r("span", { style: { width: `${Math.abs(e.score) / e.most * 100}%` } }) }),
      /* @__PURE__ */ r("button", { type: "button", class: "pin", "aria-pressed": t.p.includes(s.query), "aria-label": `Pin ${s.query}`, onClick: y, children: t.p.includes(s.query) ? "●" : "○" })
    ] })
  ] });
}
function Gt({ values: e }) {
  if (!e) return /* @__PURE__ */ r("span", { class: "blank" });
  const t = Math.max(...e, 1e-9);
  return /* @__PURE__ */ r("svg", { class: "spark", viewBox: `0 0 ${e.length} 1`, preserveAspectRatio: "none", "aria-hidden": "true", children: e.map((n, i) => /* @__PURE__ */ r("rect", { x: i + 0.05, y: 1 - n / t, width: 0.9, height: n / t }, i)) });
}
const D = 30;
function Vt() {
  const { model: e, view: t, set: n } = C(), i = fe(null), s = W(e, t.q);
  if (O(() => {
    i.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [s?.name]), !e) return null;
  const o = ["input", ...e.nodes.map((d) => d.name)], c = e.edges.map(([d, u]) => [o.indexOf(d), o.indexOf(u)]).filter(([d, u]) => d >= 0 && u - d > 1);
  return /* @__PURE__ */ r("nav", { class: "ladder", "aria-label": "Tensors, shallow to deep", children: /* @__PURE__ */ r("div", { class: "rungs", children: [
    /* @__PURE__ */ r("svg", { class: "dag", width: "22", height: o.length * D, "aria-hidden": "true", children: [
      /* @__PURE__ */ r("path", { d: `M15 ${D / 2}V${(o.length - 0.5) * D}` }),
      c.map(([d, u]) => /* @__PURE__ */ r("path", { class: "skip", d: `M15 ${(d + 0.5) * D}C2 ${(d + 0.5) * D} 2 ${(u + 0.5) * D} 15 ${(u + 0.5) * D}` }, `${d}-${u}`)),
      o.map((d, u) => /* @__PURE__ */ r("circle", { class: d === s?.name ? "now" : "", cx: "15", cy: (u + 0.5) * D, r: d === s?.name ? 5 : 3 }, d))
    ] }),
    /* @__PURE__ */ r("ol", { children: [
      /* @__PURE__ */ r("li", { class: "source", children: [
        /* @__PURE__ */ r("span", { children: "input" }),
        /* @__PURE__ */ r("small", { children: e.input.join(" × ") })
      ] }),
      e.nodes.map((d) => /* @__PURE__ */ r("li", { children: /* @__PURE__ */ r(
        "button",
        {
          type: "button",
          ref: d.name === s?.name ? i : void 0,
          "aria-current": d.name === s?.name ? "true" : void 0,
          title: `${d.name} (${d.op})`,
          onClick: () => n({ q: bt(t.q, s, d) }),
          children: [
            /* @__PURE__ */ r("span", { children: d.name }),
            /* @__PURE__ */ r("small", { children: vt(d) })
          ]
        }
      ) }, d.name))
    ] })
  ] }) });
}
const Ve = 20 * 2 ** 20;
function Qt({ close: e }) {
  const { models: t, inputs: n, view: i, model: s, set: o, refresh: c, transport: d, say: u } = C(), [a, p] = q(null), [f, l] = q(!1), [h, g] = q(""), y = B("/api/health").data, b = async (_, m) => {
    if (p(null), _.size > Ve) {
      p({ expected: `at most ${Ve >> 20} MiB`, got: `${(_.size / 2 ** 20).toFixed(1)} MiB`, todo: "Choose a smaller file." });
      return;
    }
    try {
      const { sha: k } = await d.upload(_, m), M = (await c()).find((E) => E.sha === k)?.lenses ?? [];
      o({ x: k, ...M.includes(i.m) || !M.length ? {} : { m: M[0], q: "" } }), u(`${m} added`), e();
    } catch (k) {
      p(G(k));
    }
  }, v = n.filter((_) => !s || _.lenses.includes(s.id));
  return /* @__PURE__ */ r("section", { class: "open", "aria-label": "Open", children: [
    /* @__PURE__ */ r("div", { children: [
      /* @__PURE__ */ r("h2", { children: "Models" }),
      /* @__PURE__ */ r("ul", { class: "models", children: t.map((_) => /* @__PURE__ */ r("li", { children: /* @__PURE__ */ r(
        "button",
        {
          type: "button",
          "aria-current": _.id === i.m ? "true" : void 0,
          onClick: () => {
            const m = n.find((k) => k.lenses.includes(_.id));
            o({ m: _.id, q: "", x: v.some((k) => k.sha === i.x && k.lenses.includes(_.id)) ? i.x : m?.sha ?? "" });
          },
          children: [
            /* @__PURE__ */ r("b", { children: _.title }),
            /* @__PURE__ */ r("span", { children: [
              _.kind === "natural" ? "natural inverse, no calibration" : "calibrated maps",
              " · ",
              _.nodes.length,
              " tensors · ",
              _.input.join(" × ")
            ] })
          ]
        }
      ) }, _.id)) }),
      /* @__PURE__ */ r("p", { class: "note", children: [
        "More models or map folders: name them on the command line, ",
        /* @__PURE__ */ r("code", { children: "sgfi explore torchvision:resnet50 maps/mine photo.jpg" }),
        "."
      ] }),
      y && /* @__PURE__ */ r("p", { class: "note", role: "status", children: [
        y.waiting ? `${y.waiting} questions at work` : "Nothing at work",
        " · ",
        y.counts.done,
        " answered, ",
        y.counts.cancelled,
        " cancelled"
      ] })
    ] }),
    /* @__PURE__ */ r("div", { children: [
      /* @__PURE__ */ r("h2", { children: "Inputs" }),
      /* @__PURE__ */ r("ul", { class: "inputs", children: v.map((_) => /* @__PURE__ */ r("li", { children: /* @__PURE__ */ r("button", { type: "button", "aria-current": _.sha === i.x ? "true" : void 0, onClick: () => {
        o({ x: _.sha }), e();
      }, children: [
        _.kind !== "text" && s?.picture && /* @__PURE__ */ r(H, { path: `/input/${s.id}/${_.sha}.png`, alt: "" }),
        /* @__PURE__ */ r("span", { children: _.name })
      ] }) }, _.sha)) }),
      s?.text ? /* @__PURE__ */ r("form", { class: "write", onSubmit: (_) => {
        _.preventDefault(), h.trim() && b(new Blob([h], { type: "text/plain" }), h.slice(0, 80));
      }, children: [
        /* @__PURE__ */ r("label", { children: [
          "A text ",
          /* @__PURE__ */ r("textarea", { value: h, rows: 2, onInput: (_) => g(_.currentTarget.value) })
        ] }),
        /* @__PURE__ */ r("button", { type: "submit", children: "Add" })
      ] }) : /* @__PURE__ */ r(
        "label",
        {
          class: f ? "drop over" : "drop",
          onDragOver: (_) => {
            _.preventDefault(), l(!0);
          },
          onDragLeave: () => l(!1),
          onDrop: (_) => {
            _.preventDefault(), l(!1);
            const m = _.dataTransfer?.files[0];
            m && b(m, m.name);
          },
          children: [
            /* @__PURE__ */ r("input", { type: "file", accept: "image/*", onChange: (_) => {
              const m = _.currentTarget.files?.[0];
              m && b(m, m.name);
            } }),
            /* @__PURE__ */ r("span", { children: "Drop a picture here, or choose one. It stays on this computer." })
          ]
        }
      ),
      a && /* @__PURE__ */ r(L, { problem: a })
    ] })
  ] });
}
const Qe = 8, Xt = {
  preview: "preview: plain gradient, not the answer",
  final: "natural inverse",
  share: "natural inverse, faded where it is not determined"
};
function Yt(e) {
  const { view: t, model: n } = C(), i = ["share", "final", "preview"].find((p) => e[p]?.state === "done") ?? "", s = e[i]?.facts, o = i ? A("inverse", { ...t, q: s?.query ?? t.q }, "png", { stage: i, ...t.w === "signed" ? { view: "signed" } : {} }) : null, c = `${t.m} ${t.x} ${t.q}`, d = n?.kind === "maps" && i === "final" ? "calibrated maps" : Xt[i], { shown: u, problem: a } = mt(o, { asked: c, query: t.q, stage: i, label: d, facts: s });
  return { shown: u, current: u?.about.asked === c, problem: a };
}
function Zt({ stages: e }) {
  const { view: t, model: n, set: i, inputs: s } = C(), o = W(n, t.q), [c, d] = q(!1), [u, a] = q(null), [p, f] = q(null), l = !!n?.picture && o?.coords.length === 2, h = B(c && l && o ? A("reads", { ...t, q: o.name }, "json") : null), { shown: g, current: y, problem: b } = Yt(e);
  if (!n) return null;
  const v = Object.values(e).find((T) => T.state === "failed" && T.error)?.error ?? b, _ = y && g ? g.about.stage : "none", m = h.data, k = m && p !== null ? m.share.map((T) => T[p]) : null, N = m && u !== null ? m.share[u] : null, M = s.find((T) => T.sha === t.x)?.name ?? "input", E = j(t.q).coords.split(";").filter(Boolean);
  return /* @__PURE__ */ r("section", { class: "panels", "aria-label": "Input and inverse", children: [
    /* @__PURE__ */ r("figure", { children: [
      /* @__PURE__ */ r("div", { class: "frame", onPointerEnter: () => d(!0), children: [
        /* @__PURE__ */ r(H, { path: t.x ? `/input/${t.m}/${t.x}.png` : null, alt: `${M} as the model sees it` }),
        l && /* @__PURE__ */ r(
          Xe,
          {
            rows: Math.min(Qe, n.input[1]),
            columns: Math.min(Qe, n.input[2]),
            weights: k,
            onHover: a,
            label: (T) => `place ${T.join(", ")}`
          }
        )
      ] }),
      /* @__PURE__ */ r("figcaption", { children: [
        /* @__PURE__ */ r("b", { children: M }),
        " ",
        /* @__PURE__ */ r("span", { children: tn(c && l, !!m, k ? "what the cell reads" : "hover: which cells read it") })
      ] })
    ] }),
    /* @__PURE__ */ r("figure", { children: [
      /* @__PURE__ */ r("div", { class: "frame", onPointerEnter: () => d(!0), children: [
        g ? /* @__PURE__ */ r("img", { class: `answer ${g.about.stage} ${y ? "" : "stale"}`, src: g.url, alt: `${g.about.label} of ${g.about.query}`, "data-path": g.path, draggable: !1 }) : /* @__PURE__ */ r("div", { class: "blank answer", role: "img", "aria-label": `${t.q}, on its way` }),
        l && o && /* @__PURE__ */ r(
          Xe,
          {
            rows: o.coords[0],
            columns: o.coords[1],
            weights: N,
            marked: E,
            onHover: f,
            label: (T) => `cell ${T.join(", ")}`,
            onPick: (T) => i({ q: ue({ ...j(t.q), node: o.name, coords: T.join(",") }) })
          }
        ),
        (_ === "none" || _ === "preview") && !v && /* @__PURE__ */ r(nn, { stages: e })
      ] }),
      /* @__PURE__ */ r("figcaption", { "data-stage": _, "data-query": t.q, children: y && g ? /* @__PURE__ */ r(en, { answer: g.about }) : /* @__PURE__ */ r(U, { children: [
        /* @__PURE__ */ r("b", { children: v ? "no answer" : "on its way" }),
        " ",
        /* @__PURE__ */ r("span", { children: g && /* @__PURE__ */ r(U, { children: [
          "still shown: ",
          /* @__PURE__ */ r("code", { children: g.about.query })
        ] }) })
      ] }) })
    ] }),
    v && /* @__PURE__ */ r(L, { problem: v })
  ] });
}
function en({ answer: { label: e, stage: t, facts: n } }) {
  return /* @__PURE__ */ r(U, { children: [
    /* @__PURE__ */ r("b", { children: e }),
    " ",
    /* @__PURE__ */ r("span", { children: [
      n?.gain !== void 0 && t !== "preview" && n.gain > 1.05 && `gain ${n.gain.toFixed(1)} · `,
      typeof n?.share == "number" && `share up to ${n.share.toFixed(2)} · `,
      n && `${n.seconds.toFixed(2)} s`
    ] })
  ] });
}
function tn(e, t, n) {
  return e ? t ? n : "working out who reads what …" : "";
}
function nn({ stages: e }) {
  const t = e.final ?? e.preview, n = t ? t.state === "queued" ? "waiting …" : t.state === "working" ? `solving, step ${t.steps}` : "" : "asking …";
  return /* @__PURE__ */ r("div", { class: "progress", role: "status", children: n });
}
function Xe(e) {
  const { rows: t, columns: n } = e;
  if (!t || !n || t * n > 4096) return null;
  const i = e.weights ? Math.max(...e.weights, 1e-9) : 1, s = (o) => {
    const c = o.currentTarget.getBoundingClientRect(), d = Math.min(t - 1, Math.max(0, Math.floor((o.clientY - c.top) / c.height * t))), u = Math.min(n - 1, Math.max(0, Math.floor((o.clientX - c.left) / c.width * n)));
    return [d, u];
  };
  return /* @__PURE__ */ r(
    "svg",
    {
      class: `cells ${e.onPick ? "pick" : ""}`,
      viewBox: `0 0 ${n} ${t}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
      onPointerMove: (o) => {
        const [c, d] = s(o);
        e.onHover(c * n + d);
      },
      onPointerLeave: () => e.onHover(null),
      onClick: (o) => e.onPick?.(s(o)),
      children: [
        e.weights?.map((o, c) => {
          const d = Math.sqrt(o / i);
          return /* @__PURE__ */ r("rect", { class: "shade", x: c % n, y: Math.floor(c / n), width: 1, height: 1, "fill-opacity": (1 - d) * 0.82 }, c);
        }),
        e.marked?.map((o) => {
          const [c, d] = o.split(",").map(Number);
          return /* @__PURE__ */ r("rect", { class: "mark", x: d, y: c, width: 1, height: 1 }, o);
        })
      ]
    }
  );
}
function yt() {
  const { view: e, inputs: t } = C(), n = t.some((i) => i.sha === e.x);
  return B(n ? `/input/${e.m}/${e.x}.json` : null).data?.tokens ?? void 0;
}
const le = (e) => e.replace(/\n/g, "↵").trim() || "␣";
function rn({ stages: e }) {
  const { view: t } = C(), n = yt(), i = ["final", "preview"].find((u) => e[u]?.state === "done"), s = i ? e[i].facts?.profile : void 0, o = Object.values(e).find((u) => u.state === "failed" && u.error), c = new Set(j(t.q).coords.split(";").filter(Boolean).map(Number)), d = s ? Math.max(...s, 1e-9) : 1;
  return /* @__PURE__ */ r("section", { class: "strip", "aria-label": "Source tokens", "data-stage": i ?? "none", "data-query": t.q, children: [
    /* @__PURE__ */ r("ol", { children: n?.map((u, a) => /* @__PURE__ */ r("li", { class: c.has(a) ? "asked" : "", title: s ? `${(100 * s[a]).toFixed(1)} % of the energy` : "", children: [
      /* @__PURE__ */ r("span", { class: "fill", style: { opacity: s ? 0.75 * (s[a] / d) : 0 } }),
      /* @__PURE__ */ r("b", { children: le(u) }),
      /* @__PURE__ */ r("small", { children: s ? `${(100 * s[a]).toFixed(0)} %` : "…" })
    ] }, a)) }),
    /* @__PURE__ */ r("p", { class: "note", children: i === "preview" ? "Preview: plain gradient, not the answer." : "Where the inverse of the framed tokens' state lies: share of its energy, token by token. Neither attention nor probability." }),
    o?.error && /* @__PURE__ */ r(L, { problem: o.error })
  ] });
}
function on() {
  const { view: e, model: t, set: n } = C(), i = yt(), { data: s, problem: o } = B(t ? A("tokens", { ...e, q: t.target }, "json") : null), c = W(t, e.q)?.name ?? j(e.q).node, d = Number(j(e.q).coords.split(";")[0] || 0);
  if (o) return /* @__PURE__ */ r(L, { problem: o });
  if (!s || !i) return /* @__PURE__ */ r("p", { class: "note", role: "status", children: "Reading out every layer …" });
  const u = s.rows.find((a) => a.node === c);
  return /* @__PURE__ */ r("div", { class: "tokens", children: [
    /* @__PURE__ */ r("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Layer by position", children: /* @__PURE__ */ r("table", { children: [
      /* @__PURE__ */ r("thead", { children: /* @__PURE__ */ r("tr", { children: [
        /* @__PURE__ */ r("th", { scope: "col", children: "layer" }),
        i.map((a, p) => /* @__PURE__ */ r("th", { scope: "col", children: le(a) }, p))
      ] }) }),
      /* @__PURE__ */ r("tbody", { children: [...s.rows].reverse().map((a) => /* @__PURE__ */ r("tr", { children: [
        /* @__PURE__ */ r("th", { scope: "row", children: /* @__PURE__ */ r("code", { children: a.node.replace(/^.*?(\d+)(\D*)$/, "$1$2") }) }),
        i.map((p, f) => /* @__PURE__ */ r("td", { children: /* @__PURE__ */ r(
          "button",
          {
            type: "button",
            class: a.node === c && f === d ? "now" : "",
            "aria-label": `${a.node} at ${f}, going to ${a.next[f][0]}`,
            "data-query": `${a.node}@${f}`,
            onClick: () => n({ q: `${a.node}@${f}` }),
            children: [
              /* @__PURE__ */ r("span", { class: "fill", style: { opacity: 0.6 * a.odds[f][0] } }),
              /* @__PURE__ */ r("span", { children: le(a.next[f][0]) })
            ]
          }
        ) }, f))
      ] }, a.node)) })
    ] }) }),
    u && /* @__PURE__ */ r("section", { "aria-label": "Going to", children: [
      /* @__PURE__ */ r("h3", { children: [
        "Going to ",
        /* @__PURE__ */ r("small", { children: [
          "logit lens at ",
          u.node,
          ", position ",
          d
        ] })
      ] }),
      /* @__PURE__ */ r("ol", { children: u.next[d]?.map((a, p) => /* @__PURE__ */ r("li", { children: [
        /* @__PURE__ */ r("b", { children: le(a) }),
        " ",
        /* @__PURE__ */ r("small", { children: [
          (100 * u.odds[d][p]).toFixed(1),
          " %"
        ] })
      ] }, p)) }),
      /* @__PURE__ */ r("p", { class: "note", children: "The residual state after this layer, read out by the final norm and the unembedding as if the model ended here." })
    ] })
  ] });
}
const sn = {
  follows: ["good", "The picture follows its target"],
  swapped: ["fair", "Another input's target gives nearly this picture"],
  alike: ["fair", "Follows its target, but its neighbours look alike"],
  "operating point": ["bad", "A picture of the operating point, not of the feature"],
  single: ["plain", "One number: a target can only scale its picture"]
};
function ln({ stages: e }) {
  const { view: t, model: n, inputs: i } = C(), s = e.trust, o = s?.state === "done" ? s.facts : void 0, [c, d] = sn[o?.verdict ?? ""] ?? ["wait", "Checking …"], u = e.final?.facts, a = i.find((f) => f.sha === o?.other)?.name, p = (f) => o && n?.picture ? A("trust", { ...t, q: o.query }, "png", { part: f }) : null;
  return /* @__PURE__ */ r("aside", { class: `trust ${c}`, "aria-label": "Trust", children: [
    /* @__PURE__ */ r("h2", { children: "Trust" }),
    /* @__PURE__ */ r("p", { class: "verdict", role: "status", "data-verdict": o?.verdict ?? "", children: s?.state === "failed" ? "The controls could not be worked out." : d }),
    o?.verdict === "operating point" && /* @__PURE__ */ r("p", { class: "plain", children: "Random targets give nearly this picture. It shows what the model computes around this input, whatever the feature says." }),
    o?.verdict === "swapped" && /* @__PURE__ */ r("p", { class: "plain", children: "It changes with a random target, but hardly with another input's: what is seen is mostly this input's operating point." }),
    /* @__PURE__ */ r("dl", { children: [
      /* @__PURE__ */ r(ye, { name: "random target", value: o?.random, note: o && o.random === null ? "one number" : "near 0 is good", ready: !!o }),
      /* @__PURE__ */ r(ye, { name: a ? `${a}'s target` : "another input's target", value: o?.swapped, note: o && o.swapped === null ? "no other input" : "low is good", ready: !!o }),
      /* @__PURE__ */ r(ye, { name: "neighbouring queries", value: o?.neighbours, note: o && o.neighbours === null ? "none" : "low: selective", ready: !!o }),
      /* @__PURE__ */ r("div", { children: [
        /* @__PURE__ */ r("dt", { children: "zero target" }),
        /* @__PURE__ */ r("dd", { children: o ? o.zero === 0 ? "exactly zero" : `up to ${o.zero?.toExponential(1)}` : "…" })
      ] })
    ] }),
    n?.picture && /* @__PURE__ */ r("div", { class: "controls", children: [
      o?.random !== null && /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(H, { path: p("random"), alt: "What a random target gives" }),
        /* @__PURE__ */ r("figcaption", { children: "random target" })
      ] }),
      o?.swapped !== null && /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(H, { path: p("swapped"), alt: "What another input's target gives" }),
        /* @__PURE__ */ r("figcaption", { children: a ? `${a}'s target` : "swapped target" })
      ] })
    ] }),
    o?.sentence && /* @__PURE__ */ r("p", { class: "sentence", children: o.sentence }),
    /* @__PURE__ */ r("h3", { children: "This answer" }),
    /* @__PURE__ */ r("dl", { class: "small", children: [
      /* @__PURE__ */ r(ne, { name: "cosine with the input", value: u?.cosine?.toFixed(2) }),
      /* @__PURE__ */ r(ne, { name: "residual of the solve", value: u?.residual?.toFixed(3) }),
      /* @__PURE__ */ r(ne, { name: "steps", value: u?.steps !== void 0 ? u.steps === 0 ? "exact" : String(u.steps) : void 0 }),
      /* @__PURE__ */ r(ne, { name: "numbers asked for", value: o?.numbers?.toLocaleString("en") })
    ] })
  ] });
}
function ye({ name: e, value: t, note: n, ready: i }) {
  const s = typeof t == "number";
  return /* @__PURE__ */ r("div", { children: [
    /* @__PURE__ */ r("dt", { children: e }),
    /* @__PURE__ */ r("dd", { children: [
      /* @__PURE__ */ r("span", { class: "bar", "aria-hidden": "true", children: /* @__PURE__ */ r("span", { style: { width: `${s ? Math.min(1, Math.abs(t)) * 100 : 0}%` } }) }),
      /* @__PURE__ */ r("b", { children: s ? t.toFixed(2) : i ? "–" : "…" }),
      " ",
      /* @__PURE__ */ r("small", { children: n })
    ] })
  ] });
}
function ne({ name: e, value: t }) {
  return t === void 0 ? null : /* @__PURE__ */ r("div", { children: [
    /* @__PURE__ */ r("dt", { children: e }),
    /* @__PURE__ */ r("dd", { children: t })
  ] });
}
const an = { grid: "Grid", compare: "Compare", decide: "Decide", tokens: "Tokens" };
function wt({ transport: e, start: t }) {
  const [n, i] = q([]), [s, o] = q([]), [c, d] = q(() => Je(t)), [u, a] = q(null), [p, f] = q(""), l = He(async () => {
    const b = await Ce(e, "/api/inputs");
    return o(b), b;
  }, [e]);
  O(() => {
    Promise.all([Ce(e, "/api/models").then(i), l()]).catch((b) => a(G(b)));
  }, [e]), O(() => {
    if (!e.page) return;
    const b = () => d(Je(location.hash));
    return addEventListener("hashchange", b), () => removeEventListener("hashchange", b);
  }, [e]);
  const h = He((b, v = !1) => {
    d((_) => {
      const m = { ..._, ...b };
      return e.page && history[v ? "replaceState" : "pushState"](null, "", `#${gt(m)}`), m;
    });
  }, [e]), g = n.find((b) => b.id === c.m);
  O(() => {
    if (!n.length) return;
    const b = n.find((_) => _.id === c.m) ?? (c.m ? void 0 : n[0]);
    if (!b) return;
    const v = {};
    b.id !== c.m && (v.m = b.id), c.x || (v.x = s.find((_) => _.lenses.includes(b.id))?.sha ?? ""), c.q || (v.q = cn(b)), v.x === "" && delete v.x, Object.keys(v).length && h(v, !0);
  }, [n, s, c.m, c.x, c.q]);
  const y = Z(() => ({ transport: e, models: n, inputs: s, view: c, model: g, set: h, refresh: l, say: f }), [e, n, s, c, g, h, l]);
  return u ? /* @__PURE__ */ r("main", { class: "alone", children: [
    /* @__PURE__ */ r("h1", { children: "sgfi explorer" }),
    /* @__PURE__ */ r(L, { problem: u })
  ] }) : /* @__PURE__ */ r(_t.Provider, { value: y, children: /* @__PURE__ */ r(dn, { said: p }) });
}
function cn(e) {
  const t = e.nodes[Math.floor(e.nodes.length / 3)] ?? e.nodes[e.nodes.length - 1];
  return e.text ? `${t.name}@1` : t.name;
}
function dn({ said: e }) {
  const t = C(), { view: n, model: i, set: s, inputs: o } = t, [c, d] = q(!1), [u, a] = q(!1), [p, f] = q(!1), l = fe(null), h = o.some((v) => v.sha === n.x), g = i && h && n.q ? { lens: n.m, input: n.x, query: n.q, stages: ["preview", "final", "trust", ...n.s ? ["share"] : []] } : null, y = ee(g);
  fn(t, { open: () => d((v) => !v), help: () => a((v) => !v), take: () => f((v) => !v), query: () => {
    l.current?.focus(), l.current?.select();
  } });
  const b = W(i, n.q);
  return /* @__PURE__ */ r("div", { class: "workbench", children: [
    /* @__PURE__ */ r("a", { class: "skip", href: "#result", onClick: (v) => {
      v.preventDefault(), document.getElementById("result")?.focus();
    }, children: "Skip to the answer" }),
    /* @__PURE__ */ r("header", { children: [
      /* @__PURE__ */ r("h1", { children: "sgfi" }),
      /* @__PURE__ */ r("button", { type: "button", class: "where", "aria-expanded": c, onClick: () => d(!c), children: [
        /* @__PURE__ */ r("b", { children: i?.title ?? "model" }),
        " ",
        /* @__PURE__ */ r("span", { children: o.find((v) => v.sha === n.x)?.name ?? "input" })
      ] }),
      /* @__PURE__ */ r(hn, { box: l }),
      /* @__PURE__ */ r("div", { class: "switches", children: [
        /* @__PURE__ */ r("button", { type: "button", "aria-pressed": n.s, title: "Fade what the feature does not determine (s)", onClick: () => s({ s: !n.s }), children: "share" }),
        /* @__PURE__ */ r("button", { type: "button", "aria-pressed": n.w === "signed", title: "Signed colours: red above zero, blue below (w)", onClick: () => s({ w: n.w === "signed" ? "natural" : "signed" }), children: "signed" }),
        /* @__PURE__ */ r(pn, {}),
        /* @__PURE__ */ r("button", { type: "button", "aria-expanded": p, title: "Export what is shown (e)", onClick: () => f(!p), children: "export" }),
        /* @__PURE__ */ r("button", { type: "button", "aria-expanded": u, title: "Keyboard (?)", onClick: () => a(!u), children: "?" })
      ] })
    ] }),
    u && /* @__PURE__ */ r(_n, {}),
    p && /* @__PURE__ */ r(Ft, {}),
    c && /* @__PURE__ */ r(Qt, { close: () => d(!1) }),
    n.m && t.models.length > 0 && !i && /* @__PURE__ */ r(L, { problem: { expected: "an open model", got: n.m, todo: "This link is for a model that is not open here: name it when you start sgfi explore." } }),
    n.x && o.length > 0 && !h && /* @__PURE__ */ r(L, { problem: { expected: "a known input", got: n.x.slice(0, 12), todo: "This link is for an input that is not on this computer. Add it, or choose another." } }),
    /* @__PURE__ */ r("div", { class: "columns", children: [
      /* @__PURE__ */ r(Vt, {}),
      /* @__PURE__ */ r("main", { id: "result", tabIndex: -1, children: [
        /* @__PURE__ */ r("h2", { class: "query", children: [
          /* @__PURE__ */ r("code", { children: n.q || "…" }),
          " ",
          b && /* @__PURE__ */ r("small", { children: [
            "of ",
            vt(b)
          ] })
        ] }),
        i?.picture && h && /* @__PURE__ */ r(Zt, { stages: y }),
        i?.text && h && /* @__PURE__ */ r(rn, { stages: y }),
        h && /* @__PURE__ */ r(un, {})
      ] }),
      /* @__PURE__ */ r(ln, { stages: y })
    ] }),
    /* @__PURE__ */ r("div", { class: "said", role: "status", "aria-live": "polite", children: e })
  ] });
}
function un() {
  const { view: e, set: t, model: n } = C(), i = n?.text ? ["tokens", "grid"] : ["grid", "compare", "decide"], s = i.find((o) => o === e.v) ?? i[0];
  return /* @__PURE__ */ r("section", { class: "tabs", children: [
    /* @__PURE__ */ r("div", { role: "tablist", "aria-label": "Below the pictures", children: i.map((o) => /* @__PURE__ */ r("button", { type: "button", role: "tab", id: `tab-${o}`, "aria-selected": s === o, "aria-controls": "tab-body", onClick: () => t({ v: o }), children: an[o] }, o)) }),
    /* @__PURE__ */ r("div", { role: "tabpanel", id: "tab-body", "aria-labelledby": `tab-${s}`, children: [
      n && s === "grid" && /* @__PURE__ */ r(Wt, {}),
      n && s === "compare" && /* @__PURE__ */ r(It, {}),
      n && s === "decide" && /* @__PURE__ */ r(Ht, {}),
      n && s === "tokens" && /* @__PURE__ */ r(on, {})
    ] })
  ] });
}
function hn({ box: e }) {
  const { view: t, set: n } = C(), [i, s] = q(t.q);
  return O(() => s(t.q), [t.q]), /* @__PURE__ */ r("form", { class: "querybox", onSubmit: (o) => {
    o.preventDefault(), n({ q: i.trim() }), e.current?.blur();
  }, children: [
    /* @__PURE__ */ r("label", { children: [
      /* @__PURE__ */ r("span", { class: "hidden", children: "Query" }),
      /* @__PURE__ */ r(
        "input",
        {
          ref: e,
          value: i,
          spellcheck: !1,
          autocomplete: "off",
          placeholder: "layer3.1.add:17@2,3",
          onInput: (o) => s(o.currentTarget.value),
          onKeyDown: (o) => {
            o.key === "Escape" && (s(t.q), o.currentTarget.blur());
          }
        }
      )
    ] }),
    /* @__PURE__ */ r("button", { type: "submit", children: "Ask" })
  ] });
}
function pn() {
  const { transport: e, say: t } = C();
  if (!e.page) return null;
  const n = async () => {
    try {
      await navigator.clipboard.writeText(location.href), t("Link copied");
    } catch {
      t("Copy the address of this page");
    }
  };
  return /* @__PURE__ */ r("button", { type: "button", onClick: () => void n(), title: "Copy the link to exactly this view", children: "link" });
}
function _n() {
  return /* @__PURE__ */ r("section", { class: "help", "aria-label": "Keyboard", children: [
    /* @__PURE__ */ r("dl", { children: [
      ["↑ ↓", "shallower, deeper tensor"],
      ["← →", "previous, next channel (or cell)"],
      ["[ ]", "previous, next input"],
      ["/", "write a query"],
      ["o", "open models and inputs"],
      ["s", "fade by share"],
      ["w", "signed colours"],
      ["g c d", "grid, compare, decide"],
      ["e", "export"],
      ["?", "this list"]
    ].map(([t, n]) => /* @__PURE__ */ r("div", { children: [
      /* @__PURE__ */ r("dt", { children: /* @__PURE__ */ r("kbd", { children: t }) }),
      /* @__PURE__ */ r("dd", { children: n })
    ] }, t)) }),
    /* @__PURE__ */ r("p", { children: [
      "A query is ",
      /* @__PURE__ */ r("code", { children: "tensor[:channels][@cells]" }),
      ", such as ",
      /* @__PURE__ */ r("code", { children: "layer3.1.add:17@2,3" }),
      ". Click a cell of the inverse to ask about it alone."
    ] })
  ] });
}
function fn(e, t) {
  const n = fe({ session: e, act: t });
  n.current = { session: e, act: t }, O(() => {
    if (!e.transport.page) return;
    const i = (s) => {
      const o = s.target;
      if (s.ctrlKey || s.metaKey || s.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(o.tagName)) return;
      const { session: { view: c, model: d, set: u, inputs: a }, act: p } = n.current, f = W(d, c.q), l = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1, "[": -1, "]": 1 }[s.key] ?? 0;
      if (d && f && (s.key === "ArrowUp" || s.key === "ArrowDown")) {
        const h = d.nodes[d.nodes.indexOf(f) + l];
        h && u({ q: bt(c.q, f, h) });
      } else if (f && (s.key === "ArrowLeft" || s.key === "ArrowRight")) u({ q: Dt(c.q, f, l) });
      else if (s.key === "[" || s.key === "]") {
        const h = a.filter((y) => d && y.lenses.includes(d.id)), g = h.findIndex((y) => y.sha === c.x);
        h.length && u({ x: h[(g + l + h.length) % h.length].sha });
      } else if (s.key === "/") p.query();
      else if (s.key === "o") p.open();
      else if (s.key === "s") u({ s: !c.s });
      else if (s.key === "w") u({ w: c.w === "signed" ? "natural" : "signed" });
      else if (s.key === "?") p.help();
      else if (s.key === "e") p.take();
      else if (!d?.text && "gcd".includes(s.key)) u({ v: { g: "grid", c: "compare", d: "decide" }[s.key] });
      else return;
      s.preventDefault();
    };
    return addEventListener("keydown", i), () => removeEventListener("keydown", i);
  }, [e.transport]);
}
const Ye = typeof document > "u" ? null : document.getElementById("sgfi-explorer");
if (Ye) {
  const e = new URLSearchParams(location.search).get("token") ?? "";
  $e(/* @__PURE__ */ r(wt, { transport: new Et(e), start: location.hash }), Ye);
}
function mn({ model: e, el: t }) {
  const n = new Rt(e);
  return t.classList.add("sgfi-widget"), $e(/* @__PURE__ */ r(wt, { transport: n, start: e.get("start") }), t), () => {
    $e(null, t), n.close();
  };
}
const gn = { render: mn };
export {
  gn as default
};
