var he, k, Ze, B, Ae, et, tt, me, re, Q, nt, Te, we, ke, rt, ae = {}, ce = [], kt = /acit|ex(?:s|g|n|p|$)|rph|grid|ows|mnc|ntw|ine[ch]|zoo|^ord|itera/i, pe = Array.isArray;
function R(e, t) {
  for (var n in t) e[n] = t[n];
  return e;
}
function Se(e) {
  e && e.parentNode && e.parentNode.removeChild(e);
}
function xt(e, t, n) {
  var s, o, i, c = {};
  for (i in t) i == "key" ? s = t[i] : i == "ref" ? o = t[i] : c[i] = t[i];
  if (arguments.length > 2 && (c.children = arguments.length > 3 ? he.call(arguments, 2) : n), typeof e == "function" && e.defaultProps != null) for (i in e.defaultProps) c[i] === void 0 && (c[i] = e.defaultProps[i]);
  return ie(e, c, s, o, null);
}
function ie(e, t, n, s, o) {
  var i = { type: e, props: t, key: n, ref: s, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: void 0, __v: o ?? ++Ze, __i: -1, __u: 0 };
  return o == null && k.vnode != null && k.vnode(i), i;
}
function U(e) {
  return e.children;
}
function se(e, t) {
  this.props = e, this.context = t;
}
function W(e, t) {
  if (t == null) return e.__ ? W(e.__, e.__i + 1) : null;
  for (var n; t < e.__k.length; t++) if ((n = e.__k[t]) != null && n.__e != null) return n.__e;
  return typeof e.type == "function" ? W(e) : null;
}
function $t(e) {
  if (e.__P && e.__d) {
    var t = e.__v, n = t.__e, s = [], o = [], i = R({}, t);
    i.__v = t.__v + 1, k.vnode && k.vnode(i), Me(e.__P, i, t, e.__n, e.__P.namespaceURI, 32 & t.__u ? [n] : null, s, n ?? W(t), !!(32 & t.__u), o), i.__v = t.__v, i.__.__k[i.__i] = i, at(s, i, o), t.__e = t.__ = null, i.__e != n && it(i);
  }
}
function it(e) {
  if ((e = e.__) != null && e.__c != null) return e.__e = e.__c.base = null, e.__k.some(function(t) {
    if (t != null && t.__e != null) return e.__e = e.__c.base = t.__e;
  }), it(e);
}
function xe(e) {
  (!e.__d && (e.__d = !0) && B.push(e) && !de.__r++ || Ae != k.debounceRendering) && ((Ae = k.debounceRendering) || et)(de);
}
function de() {
  try {
    for (var e, t = 1; B.length; ) B.length > t && B.sort(tt), e = B.shift(), t = B.length, $t(e);
  } finally {
    B.length = de.__r = 0;
  }
}
function st(e, t, n, s, o, i, c, d, u, a, h) {
  var f, l, p, g, y, v, b = s && s.__k || ce, _ = t.length;
  for (u = qt(n, t, b, u, _), f = 0; f < _; f++) (p = n.__k[f]) != null && (l = p.__i != -1 && b[p.__i] || ae, p.__i = f, v = Me(e, p, l, o, i, c, d, u, a, h), g = p.__e, p.ref && l.ref != p.ref && (l.ref && Pe(l.ref, null, p), h.push(p.ref, p.__c || g, p)), y == null && g != null && (y = g), 4 & p.__u ? (u = ot(p, u, e), l.__e && (l.__e = null)) : typeof p.type == "function" && v !== void 0 ? u = v : g && (u = g.nextSibling), p.__u &= -7);
  return n.__e = y, u;
}
function qt(e, t, n, s, o) {
  var i, c, d, u, a, h = n.length, f = h, l = 0;
  for (e.__k = new Array(o), i = 0; i < o; i++) (c = t[i]) != null && typeof c != "boolean" && typeof c != "function" ? (typeof c == "string" || typeof c == "number" || typeof c == "bigint" || c.constructor == String ? c = e.__k[i] = ie(null, c, null, null, null) : pe(c) ? c = e.__k[i] = ie(U, { children: c }, null, null, null) : c.constructor === void 0 && c.__b > 0 ? c = e.__k[i] = ie(c.type, c.props, c.key, c.ref ? c.ref : null, c.__v) : e.__k[i] = c, u = i + l, c.__ = e, c.__b = e.__b + 1, d = null, (a = c.__i = Ct(c, n, u, f)) != -1 && (f--, (d = n[a]) && (d.__u |= 2)), d == null || d.__v == null ? (a == -1 && (o > h ? l-- : o < h && l++), typeof c.type != "function" && (c.__u |= 4)) : a != u && (a == u - 1 ? l-- : a == u + 1 ? l++ : (a > u ? l-- : l++, c.__u |= 4))) : e.__k[i] = null;
  if (f) for (i = 0; i < h; i++) (d = n[i]) != null && (2 & d.__u) == 0 && (d.__e == s && (s = W(d)), dt(d, d));
  return s;
}
function ot(e, t, n) {
  var s, o;
  if (typeof e.type == "function") {
    for (s = e.__k, o = 0; s && o < s.length; o++) s[o] && (s[o].__ = e, t = ot(s[o], t, n));
    return t;
  }
  e.__e != t && (t && e.type && !t.parentNode && (t = W(e)), t = n.insertBefore(e.__e, t || null));
  do
    t = t && t.nextSibling;
  while (t != null && t.nodeType == 8);
  return t;
}
function Ct(e, t, n, s) {
  var o, i, c, d = e.key, u = e.type, a = t[n], h = a != null && (2 & a.__u) == 0;
  if (a === null && d == null || h && d == a.key && u == a.type) return n;
  if (s > (h ? 1 : 0)) {
    for (o = n - 1, i = n + 1; o >= 0 || i < t.length; ) if ((a = t[c = o >= 0 ? o-- : i++]) != null && (2 & a.__u) == 0 && d == a.key && u == a.type) return c;
  }
  return -1;
}
function Ne(e, t, n) {
  t[0] == "-" ? e.setProperty(t, n ?? "") : e[t] = n == null ? "" : typeof n != "number" || kt.test(t) ? n : n + "px";
}
function te(e, t, n, s, o) {
  var i, c;
  e: if (t == "style") if (typeof n == "string") e.style.cssText = n;
  else {
    if (typeof s == "string" && (e.style.cssText = s = ""), s) for (t in s) n && t in n || Ne(e.style, t, "");
    if (n) for (t in n) s && n[t] == s[t] || Ne(e.style, t, n[t]);
  }
  else if (t[0] == "o" && t[1] == "n") i = t != (t = t.replace(nt, "$1")), c = t.toLowerCase(), t = c in e || t == "onFocusOut" || t == "onFocusIn" ? c.slice(2) : t.slice(2), e.l || (e.l = {}), e.l[t + i] = n, n ? s ? n[Q] = s[Q] : (n[Q] = Te, e.addEventListener(t, i ? ke : we, i)) : e.removeEventListener(t, i ? ke : we, i);
  else {
    if (o == "http://www.w3.org/2000/svg") t = t.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
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
      if (t[re] == null) t[re] = Te++;
      else if (t[re] < n[Q]) return;
      return n(k.event ? k.event(t) : t);
    }
  };
}
function Me(e, t, n, s, o, i, c, d, u, a) {
  var h, f, l, p, g, y, v, b, _, m, x, N, P, L, S, w, M = t.type;
  if (t.constructor !== void 0) return null;
  128 & n.__u && (u = !!(32 & n.__u), i = [d = t.__e = n.__e]), (h = k.__b) && h(t);
  e: if (typeof M == "function") {
    f = c.length;
    try {
      if (_ = t.props, m = M.prototype && M.prototype.render, x = (h = M.contextType) && s[h.__c], N = h ? x ? x.props.value : h.__ : s, n.__c ? b = (l = t.__c = n.__c).__ = l.__E : (m ? t.__c = l = new M(_, N) : (t.__c = l = new se(_, N), l.constructor = M, l.render = St), x && x.sub(l), l.state || (l.state = {}), l.__n = s, p = l.__d = !0, l.__h = [], l._sb = []), m && l.__s == null && (l.__s = l.state), m && M.getDerivedStateFromProps != null && (l.__s == l.state && (l.__s = R({}, l.__s)), R(l.__s, M.getDerivedStateFromProps(_, l.__s))), g = l.props, y = l.state, l.__v = t, p) m && M.getDerivedStateFromProps == null && l.componentWillMount != null && l.componentWillMount(), m && l.componentDidMount != null && l.__h.push(l.componentDidMount);
      else {
        if (m && M.getDerivedStateFromProps == null && _ !== g && l.componentWillReceiveProps != null && l.componentWillReceiveProps(_, N), t.__v == n.__v || !l.__e && l.shouldComponentUpdate != null && l.shouldComponentUpdate(_, l.__s, N) === !1) {
          t.__v != n.__v && (l.props = _, l.state = l.__s, l.__d = !1), t.__e = n.__e, t.__k = n.__k, t.__k.some(function(I) {
            I && (I.__ = t);
          }), ce.push.apply(l.__h, l._sb), l._sb = [], l.__h.length && c.push(l), d = W(n);
          break e;
        }
        l.componentWillUpdate != null && l.componentWillUpdate(_, l.__s, N), m && l.componentDidUpdate != null && l.__h.push(function() {
          l.componentDidUpdate(g, y, v);
        });
      }
      if (l.context = N, l.props = _, l.__P = e, l.__e = !1, P = k.__r, L = 0, m) l.state = l.__s, l.__d = !1, P && P(t), h = l.render(l.props, l.state, l.context), ce.push.apply(l.__h, l._sb), l._sb = [];
      else do
        l.__d = !1, P && P(t), h = l.render(l.props, l.state, l.context), l.state = l.__s;
      while (l.__d && ++L < 25);
      l.state = l.__s, l.getChildContext != null && (s = R(R({}, s), l.getChildContext())), m && !p && l.getSnapshotBeforeUpdate != null && (v = l.getSnapshotBeforeUpdate(g, y)), S = h != null && h.type === U && h.key == null ? ct(h.props.children) : h, d = st(e, pe(S) ? S : [S], t, n, s, o, i, c, d, u, a), l.base = t.__e, t.__u &= -161, l.__h.length && c.push(l), b && (l.__E = l.__ = null);
    } catch (I) {
      if (c.length = f, t.__v = null, u || i != null) {
        if (I.then) {
          for (t.__u |= u ? 160 : 128; d && d.nodeType == 8 && d.nextSibling; ) d = d.nextSibling;
          i != null && (i[i.indexOf(d)] = null), t.__e = d;
        } else if (i != null) for (w = i.length; w--; ) Se(i[w]);
      } else t.__e = n.__e;
      t.__k == null && (t.__k = n.__k || []), I.then || lt(t), k.__e(I, t, n);
    }
  } else i == null && t.__v == n.__v ? (t.__k = n.__k, t.__e = n.__e) : d = t.__e = Tt(n.__e, t, n, s, o, i, c, u, a);
  return (h = k.diffed) && h(t), 128 & t.__u ? void 0 : d;
}
function lt(e) {
  e && (e.__c && (e.__c.__e = !0), e.__k && e.__k.some(lt));
}
function at(e, t, n) {
  for (var s = 0; s < n.length; s++) Pe(n[s], n[++s], n[++s]);
  k.__c && k.__c(t, e), e.some(function(o) {
    try {
      e = o.__h, o.__h = [], e.some(function(i) {
        i.call(o);
      });
    } catch (i) {
      k.__e(i, o.__v);
    }
  });
}
function ct(e) {
  return typeof e != "object" || e == null || e.__b > 0 ? e : pe(e) ? e.map(ct) : e.constructor !== void 0 ? null : R({}, e);
}
function Tt(e, t, n, s, o, i, c, d, u) {
  var a, h, f, l, p, g, y, v = n.props || ae, b = t.props, _ = t.type;
  if (_ == "svg" ? o = "http://www.w3.org/2000/svg" : _ == "math" ? o = "http://www.w3.org/1998/Math/MathML" : o || (o = "http://www.w3.org/1999/xhtml"), i != null) {
    for (a = 0; a < i.length; a++) if ((p = i[a]) && "setAttribute" in p == !!_ && (_ ? p.localName == _ : p.nodeType == 3)) {
      e = p, i[a] = null;
      break;
    }
  }
  if (e == null) {
    if (_ == null) return document.createTextNode(b);
    e = document.createElementNS(o, _, b.is && b), d && (k.__m && k.__m(t, i), d = !1), i = null;
  }
  if (_ == null) v === b || d && e.data == b || (e.data = b);
  else {
    if (i = _ == "textarea" && b.defaultValue != null ? null : i && he.call(e.childNodes), !d && i != null) for (v = {}, a = 0; a < e.attributes.length; a++) v[(p = e.attributes[a]).name] = p.value;
    for (a in v) p = v[a], a == "dangerouslySetInnerHTML" ? f = p : a == "children" || a in b || a == "value" && "defaultValue" in b || a == "checked" && "defaultChecked" in b || te(e, a, null, p, o);
    for (a in b) p = b[a], a == "children" ? l = p : a == "dangerouslySetInnerHTML" ? h = p : a == "value" ? g = p : a == "checked" ? y = p : d && typeof p != "function" || v[a] === p || te(e, a, p, v[a], o);
    if (h) d || f && (h.__html == f.__html || h.__html == e.innerHTML) || (e.innerHTML = h.__html), t.__k = [];
    else if (f && (e.innerHTML = ""), st(t.type == "template" ? e.content : e, pe(l) ? l : [l], t, n, s, _ == "foreignObject" ? "http://www.w3.org/1999/xhtml" : o, i, c, i ? i[0] : n.__k && W(n, 0), d, u), i != null) for (a = i.length; a--; ) Se(i[a]);
    d && _ != "textarea" || (a = "value", _ == "progress" && g == null ? e.removeAttribute("value") : g != null && (g !== e[a] || _ == "progress" && !g || _ == "option" && g != v[a]) && te(e, a, g, v[a], o), a = "checked", y != null && y != e[a] && te(e, a, y, v[a], o));
  }
  return e;
}
function Pe(e, t, n) {
  try {
    if (typeof e == "function") {
      var s = typeof e.__u == "function";
      s && e.__u(), s && t == null || (e.__u = e(t));
    } else e.current = t;
  } catch (o) {
    k.__e(o, n);
  }
}
function dt(e, t, n) {
  var s, o;
  if (k.unmount && k.unmount(e), (s = e.ref) && (s.current && s.current != e.__e || Pe(s, null, t)), (s = e.__c) != null) {
    if (s.componentWillUnmount) try {
      s.componentWillUnmount();
    } catch (i) {
      k.__e(i, t);
    }
    s.base = s.__P = s.__n = null;
  }
  if (s = e.__k) for (o = 0; o < s.length; o++) s[o] && dt(s[o], t, n || typeof e.type != "function");
  n || Se(e.__e), e.__c = e.__ = e.__e = void 0;
}
function St(e, t, n) {
  return this.constructor(e, n);
}
function $e(e, t, n) {
  var s, o, i, c;
  t == document && (t = document.documentElement), k.__ && k.__(e, t), o = (s = !1) ? null : t.__k, i = [], c = [], Me(t, e = t.__k = xt(U, null, [e]), o || ae, ae, t.namespaceURI, o ? null : t.firstChild ? he.call(t.childNodes) : null, i, o ? o.__e : t.firstChild, s, c), at(i, e, c), e.props.children = null;
}
function Mt(e) {
  function t(n) {
    var s, o;
    return this.getChildContext || (s = /* @__PURE__ */ new Set(), (o = {})[t.__c] = this, this.getChildContext = function() {
      return o;
    }, this.componentWillUnmount = function() {
      s = null;
    }, this.shouldComponentUpdate = function(i) {
      this.props.value != i.value && s.forEach(function(c) {
        c.__e = !0, xe(c);
      });
    }, this.sub = function(i) {
      s.add(i);
      var c = i.componentWillUnmount;
      i.componentWillUnmount = function() {
        s && s.delete(i), c && c.call(i);
      };
    }), n.children;
  }
  return t.__c = "__cC" + rt++, t.__ = e, t.Provider = t.__l = (t.Consumer = function(n, s) {
    return n.children(s);
  }).contextType = t, t;
}
he = ce.slice, k = { __e: function(e, t, n, s) {
  for (var o, i, c; t = t.__; ) if ((o = t.__c) && !o.__) try {
    if ((i = o.constructor) && i.getDerivedStateFromError != null && (o.setState(i.getDerivedStateFromError(e)), c = o.__d), o.componentDidCatch != null && (o.componentDidCatch(e, s || {}), c = o.__d), c) return o.__E = o;
  } catch (d) {
    e = d;
  }
  throw e;
} }, Ze = 0, se.prototype.setState = function(e, t) {
  var n;
  n = this.__s != null && this.__s != this.state ? this.__s : this.__s = R({}, this.state), typeof e == "function" && (e = e(R({}, n), this.props)), e && R(n, e), e != null && this.__v && (t && this._sb.push(t), xe(this));
}, se.prototype.forceUpdate = function(e) {
  this.__v && (this.__e = !0, e && this.__h.push(e), xe(this));
}, se.prototype.render = U, B = [], et = typeof Promise == "function" ? Promise.prototype.then.bind(Promise.resolve()) : setTimeout, tt = function(e, t) {
  return e.__v.__b - t.__v.__b;
}, de.__r = 0, me = Math.random().toString(8), re = "__d" + me, Q = "__a" + me, nt = /(PointerCapture)$|Capture$/i, Te = 0, we = Oe(!1), ke = Oe(!0), rt = 0;
var Pt = 0;
function r(e, t, n, s, o, i) {
  t || (t = {});
  var c, d, u = t;
  if ("ref" in u) for (d in u = {}, t) d == "ref" ? c = t[d] : u[d] = t[d];
  var a = { type: e, props: u, key: n, ref: c, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: void 0, __v: --Pt, __i: -1, __u: 0, __source: o, __self: i };
  if (typeof e == "function" && (c = e.defaultProps)) for (d in c) u[d] === void 0 && (u[d] = c[d]);
  return k.vnode && k.vnode(a), a;
}
var K, $, ge, Ee, Y = 0, ut = [], T = k, Le = T.__b, Re = T.__r, Ue = T.diffed, je = T.__c, De = T.unmount, Ie = T.__;
function _e(e, t) {
  T.__h && T.__h($, e, Y || t), Y = 0;
  var n = $.__H || ($.__H = { __: [], __h: [] });
  return e >= n.__.length && n.__.push({}), n.__[e];
}
function q(e) {
  return Y = 1, At(pt, e);
}
function At(e, t, n) {
  var s = _e(K++, 2);
  if (s.t = e, !s.__c && (s.__ = [pt(void 0, t), function(d) {
    var u = s.__N ? s.__N[0] : s.__[0], a = s.t(u, d);
    u !== a && (s.__N = [a, s.__[1]], s.__c.setState({}));
  }], s.__c = $, !$.__f)) {
    var o = function(d, u, a) {
      if (!s.__c.__H) return !0;
      var h = !1, f = s.__c.props !== d;
      if (s.__c.__H.__.some(function(p) {
        if (p.__N) {
          h = !0;
          var g = p.__[0];
          p.__ = p.__N, p.__N = void 0, g !== p.__[0] && (f = !0);
        }
      }), i) {
        var l = i.call(this, d, u, a);
        return h ? l || f : l;
      }
      return !h || f;
    };
    $.__f = !0;
    var i = $.shouldComponentUpdate, c = $.componentWillUpdate;
    $.componentWillUpdate = function(d, u, a) {
      if (this.__e) {
        var h = i;
        i = void 0, o(d, u, a), i = h;
      }
      c && c.call(this, d, u, a);
    }, $.shouldComponentUpdate = o;
  }
  return s.__N || s.__;
}
function O(e, t) {
  var n = _e(K++, 3);
  !T.__s && ht(n.__H, t) && (n.__ = e, n.u = t, $.__H.__h.push(n));
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
      t.__h.some(oe), t.__h.some(qe), t.__h = [];
    } catch (n) {
      t.__h = [], T.__e(n, e.__v);
    }
  }
}
T.__b = function(e) {
  $ = null, Le && Le(e);
}, T.__ = function(e, t) {
  e && t.__k && t.__k.__m && (e.__m = t.__k.__m), Ie && Ie(e, t);
}, T.__r = function(e) {
  Re && Re(e), K = 0;
  var t = ($ = e.__c).__H;
  t && (ge === $ ? (t.__h = [], $.__h = [], t.__.some(function(n) {
    n.__N && (n.__ = n.__N), n.u = n.__N = void 0;
  })) : (t.__h.some(oe), t.__h.some(qe), t.__h = [], K = 0)), ge = $;
}, T.diffed = function(e) {
  Ue && Ue(e);
  var t = e.__c;
  t && t.__H && (t.__H.__h.length && (ut.push(t) !== 1 && Ee === T.requestAnimationFrame || ((Ee = T.requestAnimationFrame) || Et)(Ot)), t.__H.__.some(function(n) {
    n.u && (n.__H = n.u, n.u = void 0);
  })), ge = $ = null;
}, T.__c = function(e, t) {
  t.some(function(n) {
    try {
      n.__h.some(oe), n.__h = n.__h.filter(function(s) {
        return !s.__ || qe(s);
      });
    } catch (s) {
      t.some(function(o) {
        o.__h && (o.__h = []);
      }), t = [], T.__e(s, n.__v);
    }
  }), je && je(e, t);
}, T.unmount = function(e) {
  De && De(e);
  var t, n = e.__c;
  n && n.__H && (n.__H.__.some(function(s) {
    try {
      oe(s);
    } catch (o) {
      t = o;
    }
  }), n.__H = void 0, t && T.__e(t, n.__v));
};
var Be = typeof requestAnimationFrame == "function";
function Et(e) {
  var t, n = function() {
    clearTimeout(s), Be && cancelAnimationFrame(t), setTimeout(e);
  }, s = setTimeout(n, 35);
  Be && (t = requestAnimationFrame(n));
}
function oe(e) {
  var t = $, n = e.__c;
  typeof n == "function" && (e.__c = void 0, n()), $ = t;
}
function qe(e) {
  var t = $;
  e.__c = e.__(), $ = t;
}
function ht(e, t) {
  return !e || e.length !== t.length || t.some(function(n, s) {
    return n !== e[s];
  });
}
function pt(e, t) {
  return typeof t == "function" ? t(e) : t;
}
class X extends Error {
  constructor(t) {
    super(`expected ${t.expected}; got ${t.got}. ${t.todo}`), this.problem = t;
  }
}
const Fe = { expected: "the server to answer", got: "no connection", todo: "Is sgfi explore still running? Reload when it is." };
class Lt {
  constructor(t) {
    this.token = t, this.page = !0, this.socket = null, this.waiting = /* @__PURE__ */ new Map(), this.next = 1, this.tries = 0;
  }
  async bytes(t, n) {
    let s;
    try {
      s = await fetch(t, { headers: { authorization: `Bearer ${this.token}` }, signal: n });
    } catch (o) {
      throw n?.aborted ? o : new X(Fe);
    }
    if (!s.ok) throw new X(await We(s));
    return { body: await s.arrayBuffer(), type: s.headers.get("content-type") ?? "" };
  }
  async upload(t, n) {
    const s = await fetch(`/api/inputs?name=${encodeURIComponent(n)}`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.token}`, "content-type": t.type || "application/octet-stream" },
      body: t
    });
    if (!s.ok) throw new X(await We(s));
    return await s.json();
  }
  live(t, n) {
    const s = this.next++, o = JSON.stringify({ id: s, ask: t });
    this.waiting.set(s, { text: o, heard: n });
    const i = this.connected();
    return i.readyState === WebSocket.OPEN && i.send(o), () => {
      this.waiting.delete(s) && this.socket?.readyState === WebSocket.OPEN && this.socket.send(JSON.stringify({ id: s, cancel: !0 }));
    };
  }
  connected() {
    if (this.socket && this.socket.readyState <= WebSocket.OPEN) return this.socket;
    const t = new WebSocket(`ws://${location.host}/live?token=${encodeURIComponent(this.token)}`);
    return this.socket = t, t.onopen = () => {
      this.tries = 0;
      for (const { text: n } of this.waiting.values()) t.send(n);
    }, t.onmessage = (n) => {
      const s = JSON.parse(n.data);
      this.waiting.get(s.id)?.heard(s);
    }, t.onclose = () => {
      if (this.socket === t && (this.socket = null, !!this.waiting.size))
        if (this.tries++ < 5) setTimeout(() => this.waiting.size && this.connected(), 400 * this.tries);
        else for (const [n, { heard: s }] of this.waiting) s({ id: n, state: "failed", error: Fe });
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
    this.model = t, this.page = !1, this.next = 1, this.replies = /* @__PURE__ */ new Map(), this.events = /* @__PURE__ */ new Map(), this.heard = (n, s) => {
      n.reply !== void 0 ? (this.replies.get(n.reply)?.(n, s), this.replies.delete(n.reply)) : n.live && this.events.get(n.live.id)?.(n.live);
    }, t.on("msg:custom", this.heard);
  }
  close() {
    this.model.off("msg:custom", this.heard);
  }
  request(t, n = []) {
    const s = this.next++;
    return new Promise((o, i) => {
      this.replies.set(s, (c, d) => {
        const u = d[0], a = u ? u.buffer.slice(u.byteOffset, u.byteOffset + u.byteLength) : new ArrayBuffer(0);
        c.status < 400 ? o({ body: a, type: c.type }) : i(new X(JSON.parse(new TextDecoder().decode(a)).error));
      }), this.model.send({ request: s, ...t }, void 0, n);
    });
  }
  bytes(t) {
    return this.request({ path: t });
  }
  async upload(t, n) {
    const { body: s } = await this.request({ upload: n, kind: t.type.startsWith("text/plain") ? "text" : "picture" }, [await t.arrayBuffer()]);
    return JSON.parse(new TextDecoder().decode(s));
  }
  live(t, n) {
    const s = this.next++;
    return this.events.set(s, n), this.model.send({ live: { id: s, ask: t } }), () => {
      this.events.delete(s) && this.model.send({ live: { id: s, cancel: !0 } });
    };
  }
}
async function Ce(e, t, n) {
  const { body: s } = await e.bytes(t, n);
  return JSON.parse(new TextDecoder().decode(s));
}
const _t = Mt(null), C = () => Nt(_t), ze = {};
function ee(e) {
  const { transport: t } = C(), [n, s] = q({ key: "", stages: ze }), o = e ? JSON.stringify(e) : "";
  return O(() => {
    if (e)
      return t.live(e, (i) => {
        const c = i.stage ? [i.stage] : e.stages;
        s((d) => {
          const u = d.key === o ? { ...d.stages } : {};
          for (const a of c)
            u[a] = { state: i.state, steps: i.steps ?? u[a]?.steps ?? 0, facts: i.facts, error: i.error };
          return { key: o, stages: u };
        });
      });
  }, [o, t]), n.key === o ? n.stages : ze;
}
function j(e) {
  const { transport: t } = C(), [n, s] = q({ path: null });
  return O(() => {
    if (!e) return;
    const o = new AbortController();
    return Ce(t, e, o.signal).then(
      (i) => !o.signal.aborted && s({ path: e, data: i }),
      (i) => !o.signal.aborted && s({ path: e, problem: V(i) })
    ), () => o.abort();
  }, [e, t]), n.path === e ? n : {};
}
function V(e) {
  return e instanceof X ? e.problem : { expected: "an answer", got: String(e), todo: "Reload the page." };
}
const J = /* @__PURE__ */ new Map();
async function Ut(e, t, n) {
  const s = J.get(t);
  if (s) return s;
  const { body: o, type: i } = await e.bytes(t, n), c = URL.createObjectURL(new Blob([o], { type: i }));
  if (J.set(t, c), J.size > 600) {
    const [d, u] = J.entries().next().value;
    J.delete(d), URL.revokeObjectURL(u);
  }
  return c;
}
function ft(e) {
  const { transport: t } = C(), [n, s] = q({ path: null });
  return O(() => {
    if (!e) return;
    const o = new AbortController();
    return Ut(t, e, o.signal).then(
      (i) => !o.signal.aborted && s({ path: e, url: i }),
      (i) => !o.signal.aborted && s({ path: e, problem: V(i) })
    ), () => o.abort();
  }, [e, t]), e ? n.path === e ? n : { url: J.get(e) } : {};
}
function mt(e, t) {
  const n = fe(null), { url: s, problem: o } = ft(e);
  return e && s && (n.current = { path: e, url: s, about: t }), { shown: n.current, problem: o };
}
function F({ path: e, alt: t, className: n = "" }) {
  const { url: s, problem: o } = ft(e);
  if (s) return /* @__PURE__ */ r("img", { class: n, src: s, alt: t, "data-path": e, draggable: !1 });
  const i = o ? `could not be drawn: ${o.got}` : "on its way";
  return /* @__PURE__ */ r("div", { class: `blank ${n}`, role: "img", "aria-label": t ? `${t}, ${i}` : i, title: o && i });
}
function E({ problem: e }) {
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
const G = {
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
  for (const n of Object.keys(G)) {
    const s = e[n];
    if (JSON.stringify(s) === JSON.stringify(G[n])) continue;
    const o = Array.isArray(s) ? s.join("|") : s === !0 ? "1" : String(s);
    t.push(`${n}=${encodeURIComponent(o).replace(/%3A/g, ":").replace(/%40/g, "@").replace(/%2C/g, ",")}`);
  }
  return t.join("&");
}
function Je(e) {
  const t = { ...G, p: [] };
  for (const n of e.replace(/^#/, "").split("&")) {
    const s = n.indexOf("=");
    if (s < 0) continue;
    const o = n.slice(0, s);
    let i = "";
    try {
      i = decodeURIComponent(n.slice(s + 1));
    } catch {
      continue;
    }
    const c = jt[o];
    c && !c.includes(i) || (o === "p" ? t.p = i.split("|").filter(Boolean).slice(0, 24) : o === "s" ? t.s = i === "1" : o === "n" ? t.n = Math.min(2048, Math.max(1, Number.parseInt(i, 10) || G.n)) : o in G && (t[o] = i));
  }
  return t;
}
function D(e) {
  const [t, n = ""] = e.split("@", 2), s = t.search(/[:%]/);
  return s < 0 ? { node: t, units: "", coords: n } : { node: t.slice(0, s), units: t.slice(s), coords: n };
}
function ue(e) {
  return e.node + e.units + (e.coords ? `@${e.coords}` : "");
}
function z(e, t) {
  const { node: n } = D(t);
  if (!e) return;
  const s = n || e.target;
  return e.nodes.find((o) => o.name === s || o.aliases.includes(s));
}
function bt(e, t, n) {
  const s = D(e), o = /^:(\d+)$/.exec(s.units), i = o && Number(o[1]) < n.channels ? s.units : "";
  let c = "";
  return /^\d+(,\d+)*$/.test(s.coords) && t && t.coords.length === n.coords.length && (c = s.coords.split(",").map((u, a) => {
    const h = Math.floor((Number(u) + 0.5) * n.coords[a] / t.coords[a]);
    return Math.min(h, n.coords[a] - 1);
  }).join(",")), ue({ node: n.name, units: i, coords: c });
}
function Dt(e, t, n) {
  const s = D(e), o = /^:(\d+)$/.exec(s.units);
  if (!o && /^\d+(,\d+)*$/.test(s.coords)) {
    let d = s.coords.split(",").map(Number).reduce((h, f, l) => h * t.coords[l] + f, 0);
    const u = t.coords.reduce((h, f) => h * f, 1);
    d = (d + n + u) % u;
    const a = [];
    for (let h = t.coords.length - 1; h >= 0; h--)
      a.unshift(d % t.coords[h]), d = Math.floor(d / t.coords[h]);
    return ue({ ...s, node: t.name, coords: a.join(",") });
  }
  const i = o ? Number(o[1]) : n > 0 ? -1 : 0;
  return ue({ ...s, node: t.name, units: `:${(i + n + t.channels) % t.channels}` });
}
function vt(e) {
  return [e.channels, ...e.coords].join(" × ");
}
function A(e, t, n, s = {}) {
  const o = new URLSearchParams(s).toString();
  return `/${e}/${t.m}/${t.x}/${encodeURIComponent(t.q)}.${n}${o ? `?${o}` : ""}`;
}
const Ge = [["final", "answer"], ["first", "gradient under the prior"], ["raw", "plain gradient"]];
function It() {
  const { view: e, models: t, inputs: n, model: s, set: o } = C(), i = { m: e.bm || e.m, x: e.bx || e.x, q: e.bq || e.q, s: e.bs }, c = t.find((m) => m.id === i.m), [d, u] = q(i.q);
  O(() => u(i.q), [i.q]);
  const a = ee({ lens: e.m, input: e.x, query: e.q, stages: ["final"] }), h = ee({ lens: i.m, input: i.x, query: i.q, stages: [i.s] }), f = a.final?.state === "done" && h[i.s]?.state === "done", l = `${i.m}~${i.x}~${i.s}~${i.q}`, p = `${e.m}~${e.x}~final~${e.q}`, g = e.w === "signed" ? { view: "signed" } : {}, y = j(f ? A("inverse", e, "json", { with: l }) : null), v = (m) => n.find((x) => x.sha === m)?.name ?? "input", b = h[i.s]?.error ?? y.problem, _ = n.filter((m) => m.lenses.includes(i.m));
  return /* @__PURE__ */ r("div", { class: "compare", children: [
    /* @__PURE__ */ r("div", { class: "toolbar", children: [
      /* @__PURE__ */ r("b", { children: "B" }),
      /* @__PURE__ */ r("label", { children: [
        "estimator",
        " ",
        /* @__PURE__ */ r("select", { value: i.m, onChange: (m) => o({ bm: m.currentTarget.value }), children: t.map((m) => /* @__PURE__ */ r("option", { value: m.id, children: m.title }, m.id)) })
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "stage",
        " ",
        /* @__PURE__ */ r("select", { value: i.s, onChange: (m) => o({ bs: m.currentTarget.value }), children: Ge.map(([m, x]) => /* @__PURE__ */ r("option", { value: m, children: x }, m)) })
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "input",
        " ",
        /* @__PURE__ */ r("select", { value: i.x, onChange: (m) => o({ bx: m.currentTarget.value }), children: _.map((m) => /* @__PURE__ */ r("option", { value: m.sha, children: m.name }, m.sha)) })
      ] }),
      /* @__PURE__ */ r("form", { onSubmit: (m) => {
        m.preventDefault(), o({ bq: d.trim() });
      }, children: /* @__PURE__ */ r("label", { children: [
        "query ",
        /* @__PURE__ */ r("input", { value: d, spellcheck: !1, onInput: (m) => u(m.currentTarget.value) })
      ] }) })
    ] }),
    b && /* @__PURE__ */ r(E, { problem: b }),
    s?.picture && c?.picture && !b && /* @__PURE__ */ r("div", { class: "three", children: [
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(F, { path: f ? A("inverse", e, "png", { with: l, ...g }) : null, alt: `A: ${e.q}`, className: "side-a" }),
        /* @__PURE__ */ r("figcaption", { children: [
          /* @__PURE__ */ r("b", { children: "A" }),
          " ",
          /* @__PURE__ */ r("span", { children: [
            v(e.x),
            " · ",
            e.q
          ] })
        ] })
      ] }),
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(F, { path: f ? A("inverse", i, "png", { stage: i.s, with: p, ...g }) : null, alt: `B: ${i.q}`, className: "side-b" }),
        /* @__PURE__ */ r("figcaption", { children: [
          /* @__PURE__ */ r("b", { children: "B" }),
          " ",
          /* @__PURE__ */ r("span", { children: [
            v(i.x),
            " · ",
            i.q,
            " · ",
            Ge.find(([m]) => m === i.s)?.[1]
          ] })
        ] })
      ] }),
      /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(F, { path: f ? A("inverse", e, "png", { minus: l }) : null, alt: "A minus B", className: "minus" }),
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
  const { view: e, model: t, set: n } = C(), s = z(t, e.q), { data: o, problem: i } = j(s ? A("decide", { ...e, q: s.name }, "json") : null);
  if (i) return /* @__PURE__ */ r(E, { problem: i });
  if (!o || !s) return /* @__PURE__ */ r("p", { class: "note", role: "status", children: [
    "Ranking the channels of ",
    s?.name,
    " …"
  ] });
  const c = Math.max(...o.rows.map((a) => Math.abs(a.drop)), Math.abs(o.decision.margin)), d = [...new Set(o.rows.map((a) => a.size))], u = o.rows.filter((a) => a.kind === "positive" || a.kind === "negative");
  return /* @__PURE__ */ r("div", { class: "decide", children: [
    /* @__PURE__ */ r("p", { class: "note", children: [
      "Class ",
      o.decision.top,
      " (",
      (100 * o.decision.probability).toFixed(0),
      " %) before class ",
      o.decision.second,
      "; margin ",
      o.decision.margin.toFixed(2),
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
            /* @__PURE__ */ r("code", { children: D(a.query).units })
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
            d.map((h) => {
              const f = o.rows.find((l) => l.kind === a && l.size === h);
              return /* @__PURE__ */ r("td", { children: f && /* @__PURE__ */ r(U, { children: [
                /* @__PURE__ */ r("b", { children: f.drop.toFixed(2) }),
                f.flipped > 0 && /* @__PURE__ */ r("small", { children: [
                  " ",
                  f.groups > 1 ? `${Math.round(100 * f.flipped)} % flip` : "flips"
                ] }),
                /* @__PURE__ */ r("span", { class: f.drop < 0 ? "score minus" : "score", children: /* @__PURE__ */ r("span", { style: { width: `${100 * Math.abs(f.drop) / c}%` } }) })
              ] }) }, h);
            })
          ] }, a)) })
        ] }),
        /* @__PURE__ */ r("p", { class: "note", children: [
          "Drop of the margin when a group of that size is set to zero; negative where the margin grew. Random: mean of ",
          o.rows.find((a) => a.kind === "random")?.groups,
          " groups."
        ] })
      ] })
    ] })
  ] });
}
function Bt({ query: e }) {
  const { view: t, model: n } = C(), { final: s } = ee({ lens: t.m, input: t.x, query: e, stages: ["final"], background: !0 });
  return n?.picture ? /* @__PURE__ */ r(F, { path: s?.state === "done" ? A("inverse", { ...t, q: e }, "png") : null, alt: "" }) : null;
}
function Ft() {
  const { view: e, model: t, transport: n, say: s } = C(), [o, i] = q(null), c = { stage: e.s ? "share" : "final", ...e.w === "signed" ? { view: "signed" } : {} }, d = (l) => A(l === "png" || l === "safetensors" ? "inverse" : "export", e, l, c), u = `${e.q.replace(/[^\w.-]+/g, "_")}`, a = async (l) => {
    i(null);
    try {
      const { body: p, type: g } = await n.bytes(d(l)), y = document.createElement("a");
      y.href = URL.createObjectURL(new Blob([p], { type: g })), y.download = `${u}.${l}`, y.click(), setTimeout(() => URL.revokeObjectURL(y.href), 1e4);
    } catch (p) {
      i(V(p));
    }
  }, h = async (l) => {
    i(null);
    try {
      const { body: p } = await n.bytes(d(l));
      await navigator.clipboard.writeText(new TextDecoder().decode(p)), s(l === "py" ? "Python lines copied" : "Command copied");
    } catch (p) {
      i(V(p));
    }
  }, f = t?.picture ? ["png", "svg", "html", "safetensors"] : ["html", "safetensors"];
  return /* @__PURE__ */ r("section", { class: "export", "aria-label": "Export", children: [
    /* @__PURE__ */ r("span", { children: "Save" }),
    f.map((l) => /* @__PURE__ */ r("button", { type: "button", onClick: () => void a(l), children: l === "html" ? "single HTML file" : l.toUpperCase() }, l)),
    /* @__PURE__ */ r("span", { children: "Copy" }),
    /* @__PURE__ */ r("button", { type: "button", onClick: () => void h("py"), children: "Python lines" }),
    /* @__PURE__ */ r("button", { type: "button", onClick: () => void h("sh"), children: "command line" }),
    /* @__PURE__ */ r("code", { class: "again", children: [
      'sgfi export "#',
      gt({ ...G, m: e.m, x: e.x, q: e.q, s: e.s, w: e.w }),
      '"'
    ] }),
    o && /* @__PURE__ */ r(E, { problem: o })
  ] });
}
const ve = 24, Wt = 64, Ke = /* @__PURE__ */ new Set();
function zt() {
  const { view: e, model: t, set: n } = C(), s = z(t, e.q), o = s ? { m: e.m, x: e.x, q: s.name } : null, i = j(o ? A("scores", o, "json") : null), c = `${e.m} ${e.x}`, [d, u] = q({ about: c, queries: Ke }), a = d.about === c ? d.queries : Ke, h = (w) => u((M) => ({ about: c, queries: /* @__PURE__ */ new Set([...M.about === c ? M.queries : [], w]) })), f = s && s.coords.length === 0, l = f ? "channels" : e.by, p = Z(() => Jt(s?.name ?? "", i.data, l), [s?.name, i.data, l]), g = i.data?.[l], y = Z(() => Gt(p, e.sort === "contribution" ? g?.contribution : e.sort === "index" ? void 0 : g?.activation).slice(0, e.n), [p, g, e.sort, e.n]), v = y.filter((w) => a.has(w.query)).map((w) => w.query), b = j(
    o && e.sort === "selectivity" && v.length > 1 && v.length === y.length ? A("likeness", { ...o, q: v.join("|") }, "json") : null
  );
  if (!t || !s) return null;
  if (i.problem) return /* @__PURE__ */ r(E, { problem: i.problem });
  const _ = b.data?.selectivity, m = _ ? [...y].sort((w, M) => (_[M.query] ?? 0) - (_[w.query] ?? 0)) : y, x = (w) => e.sort === "selectivity" ? _?.[w.query] : e.sort === "contribution" ? g?.contribution?.[w.index] : g?.activation[w.index], N = Math.max(...m.map((w) => Math.abs(x(w) ?? 0)), 1e-9), P = (w, M, I = 0) => /* @__PURE__ */ r(
    Kt,
    {
      unit: w,
      pinned: M,
      asked: I < v.length + Wt,
      score: x(w),
      most: N,
      now: w.query === e.q,
      ended: () => h(w.query)
    },
    w.query
  ), L = e.p.map((w) => ({ query: w, label: w, index: -1 })), S = ["activation", "contribution", "selectivity", "index"];
  return /* @__PURE__ */ r("div", { class: "grid-tab", children: [
    /* @__PURE__ */ r("div", { class: "toolbar", children: [
      /* @__PURE__ */ r("fieldset", { children: [
        /* @__PURE__ */ r("legend", { children: "units" }),
        ["channels", "cells"].map((w) => /* @__PURE__ */ r("button", { type: "button", disabled: w === "cells" && !!f, "aria-pressed": l === w, onClick: () => n({ by: w, n: ve }), children: w }, w))
      ] }),
      /* @__PURE__ */ r("label", { children: [
        "sort by",
        " ",
        /* @__PURE__ */ r("select", { value: e.sort, onChange: (w) => n({ sort: w.currentTarget.value }), children: S.map((w) => /* @__PURE__ */ r("option", { value: w, disabled: w === "contribution" && !!g && !g.contribution, children: w === "contribution" ? "decision contribution" : w }, w)) })
      ] }),
      /* @__PURE__ */ r("span", { class: "count", role: "status", children: [
        v.length,
        " of ",
        m.length,
        " shown, ",
        p.length,
        " in all"
      ] })
    ] }),
    L.length > 0 && /* @__PURE__ */ r(U, { children: [
      /* @__PURE__ */ r("h3", { class: "pins", children: "Pinned" }),
      /* @__PURE__ */ r("ul", { class: "tiles", "aria-label": "Pinned", children: L.map((w) => P(w, !0)) })
    ] }),
    /* @__PURE__ */ r("ul", { class: "tiles", "aria-label": `${l} of ${s.name}`, children: m.map((w, M) => P(w, !1, M)) }),
    m.length < p.length && /* @__PURE__ */ r("button", { type: "button", class: "more", onClick: () => n({ n: Math.min(p.length, e.n + ve) }, !0), children: [
      ve,
      " more"
    ] }),
    e.sort === "selectivity" && /* @__PURE__ */ r("p", { class: "note", children: "Selectivity: one minus the mean absolute cosine with the other answers shown here. Known when all of them are." }),
    e.sort === "contribution" && /* @__PURE__ */ r("p", { class: "note", children: "Contribution: activation times gradient of the margin between the first two classes, to first order." })
  ] });
}
function Jt(e, t, n) {
  return !t || t.node !== e ? [] : n === "channels" ? t.channels.activation.map((s, o) => ({ query: `${e}:${o}`, label: `:${o}`, index: o })) : t.cells.at.map((s, o) => ({ query: `${e}@${s.join(",")}`, label: `@${s.join(",")}`, index: o }));
}
function Gt(e, t) {
  return t ? [...e].sort((n, s) => t[s.index] - t[n.index] || n.index - s.index) : e;
}
function Kt(e) {
  const { view: t, model: n, set: s } = C(), { unit: o } = e, i = n?.picture ? ["preview", "final"] : ["final"], c = ee(e.asked ? { lens: t.m, input: t.x, query: o.query, stages: i, background: !0 } : null), { state: d, facts: u, error: a } = c.final ?? {}, h = d === "done" ? "final" : c.preview?.state === "done" ? "preview" : "", f = h && n?.picture ? A("inverse", { ...t, q: o.query }, "png", { stage: h, ...t.w === "signed" ? { view: "signed" } : {} }) : null, { shown: l } = mt(f, { of: `${t.m} ${t.x}`, stage: h }), p = l?.about.of === `${t.m} ${t.x}` ? l : null, g = n?.picture ? p?.about.stage ?? "none" : h;
  O(() => {
    d === "done" && e.ended();
  }, [d, t.m, t.x]);
  const y = u?.profile, v = () => s({ p: e.pinned || t.p.includes(o.query) ? t.p.filter((b) => b !== o.query) : [...t.p, o.query] }, !0);
  return /* @__PURE__ */ r("li", { class: e.now ? "tile now" : "tile", children: [
    /* @__PURE__ */ r("button", { type: "button", class: "pick", "aria-current": e.now ? "true" : void 0, "aria-label": `Look at ${o.query}`, title: o.query, "data-query": o.query, "data-stage": g, onClick: () => s({ q: o.query }), children: [
      n?.picture && (p ? /* @__PURE__ */ r("img", { class: g, src: p.url, alt: "", "data-path": p.path, draggable: !1 }) : /* @__PURE__ */ r("div", { class: "blank" })),
      n?.text && /* @__PURE__ */ r(Vt, { values: y }),
      g === "preview" && /* @__PURE__ */ r("span", { class: "badge", title: "Plain gradient, not the answer", children: "preview" }),
      a && /* @__PURE__ */ r("span", { class: "wrong", title: a.got, children: "!" })
    ] }),
    /* @__PURE__ */ r("span", { class: "under", children: [
      /* @__PURE__ */ r("code", { children: o.label }),
      e.score !== void 0 && /* @__PURE__ */ r("span", { class: e.score < 0 ? "score minus" : "score", title: e.score.toPrecision(3), children: /* @__PURE__ */ r("span", { style: { width: `${Math.abs(e.score) / e.most * 100}%` } }) }),
      /* @__PURE__ */ r("button", { type: "button", class: "pin", "aria-pressed": t.p.includes(o.query), "aria-label": `Pin ${o.query}`, onClick: v, children: t.p.includes(o.query) ? "●" : "○" })
    ] })
  ] });
}
function Vt({ values: e }) {
  if (!e) return /* @__PURE__ */ r("span", { class: "blank" });
  const t = Math.max(...e, 1e-9);
  return /* @__PURE__ */ r("svg", { class: "spark", viewBox: `0 0 ${e.length} 1`, preserveAspectRatio: "none", "aria-hidden": "true", children: e.map((n, s) => /* @__PURE__ */ r("rect", { x: s + 0.05, y: 1 - n / t, width: 0.9, height: n / t }, s)) });
}
const H = 30;
function Qt() {
  const { model: e, view: t, set: n } = C(), s = fe(null), o = z(e, t.q);
  if (O(() => {
    s.current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [o?.name]), !e) return null;
  const i = ["input", ...e.nodes.map((d) => d.name)], c = e.edges.map(([d, u]) => [i.indexOf(d), i.indexOf(u)]).filter(([d, u]) => d >= 0 && u - d > 1);
  return /* @__PURE__ */ r("nav", { class: "ladder", "aria-label": "Tensors, shallow to deep", children: /* @__PURE__ */ r("div", { class: "rungs", children: [
    /* @__PURE__ */ r("svg", { class: "dag", width: "22", height: i.length * H, "aria-hidden": "true", children: [
      /* @__PURE__ */ r("path", { d: `M15 ${H / 2}V${(i.length - 0.5) * H}` }),
      c.map(([d, u]) => /* @__PURE__ */ r("path", { class: "skip", d: `M15 ${(d + 0.5) * H}C2 ${(d + 0.5) * H} 2 ${(u + 0.5) * H} 15 ${(u + 0.5) * H}` }, `${d}-${u}`)),
      i.map((d, u) => /* @__PURE__ */ r("circle", { class: d === o?.name ? "now" : "", cx: "15", cy: (u + 0.5) * H, r: d === o?.name ? 5 : 3 }, d))
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
          ref: d.name === o?.name ? s : void 0,
          "aria-current": d.name === o?.name ? "true" : void 0,
          title: `${d.name} (${d.op})`,
          onClick: () => n({ q: bt(t.q, o, d) }),
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
function Xt({ close: e }) {
  const { models: t, inputs: n, view: s, model: o, set: i, refresh: c, transport: d, say: u } = C(), [a, h] = q(null), [f, l] = q(!1), [p, g] = q(""), y = j("/api/health").data, v = async (_, m) => {
    if (h(null), _.size > Ve) {
      h({ expected: `at most ${Ve >> 20} MiB`, got: `${(_.size / 2 ** 20).toFixed(1)} MiB`, todo: "Choose a smaller file." });
      return;
    }
    try {
      const { sha: x } = await d.upload(_, m), P = (await c()).find((L) => L.sha === x)?.lenses ?? [];
      i({ x, ...P.includes(s.m) || !P.length ? {} : { m: P[0], q: "" } }), u(`${m} added`), e();
    } catch (x) {
      h(V(x));
    }
  }, b = n.filter((_) => !o || _.lenses.includes(o.id));
  return /* @__PURE__ */ r("section", { class: "open", "aria-label": "Open", children: [
    /* @__PURE__ */ r("div", { children: [
      /* @__PURE__ */ r("h2", { children: "Models" }),
      /* @__PURE__ */ r("ul", { class: "models", children: t.map((_) => /* @__PURE__ */ r("li", { children: /* @__PURE__ */ r(
        "button",
        {
          type: "button",
          "aria-current": _.id === s.m ? "true" : void 0,
          onClick: () => {
            const m = n.find((x) => x.lenses.includes(_.id));
            i({ m: _.id, q: "", x: b.some((x) => x.sha === s.x && x.lenses.includes(_.id)) ? s.x : m?.sha ?? "" });
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
      /* @__PURE__ */ r("ul", { class: "inputs", children: b.map((_) => /* @__PURE__ */ r("li", { children: /* @__PURE__ */ r("button", { type: "button", "aria-current": _.sha === s.x ? "true" : void 0, onClick: () => {
        i({ x: _.sha }), e();
      }, children: [
        _.kind !== "text" && o?.picture && /* @__PURE__ */ r(F, { path: `/input/${o.id}/${_.sha}.png`, alt: "" }),
        /* @__PURE__ */ r("span", { children: _.name })
      ] }) }, _.sha)) }),
      o?.text ? /* @__PURE__ */ r("form", { class: "write", onSubmit: (_) => {
        _.preventDefault(), p.trim() && v(new Blob([p], { type: "text/plain" }), p.slice(0, 80));
      }, children: [
        /* @__PURE__ */ r("label", { children: [
          "A text ",
          /* @__PURE__ */ r("textarea", { value: p, rows: 2, onInput: (_) => g(_.currentTarget.value) })
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
            m && v(m, m.name);
          },
          children: [
            /* @__PURE__ */ r("input", { type: "file", accept: "image/*", onChange: (_) => {
              const m = _.currentTarget.files?.[0];
              m && v(m, m.name);
            } }),
            /* @__PURE__ */ r("span", { children: "Drop a picture here, or choose one. It stays on this computer." })
          ]
        }
      ),
      a && /* @__PURE__ */ r(E, { problem: a })
    ] })
  ] });
}
const Qe = 8, Yt = {
  preview: "preview: plain gradient, not the answer",
  final: "natural inverse",
  share: "natural inverse, faded where it is not determined"
};
function Zt(e) {
  const { view: t, model: n } = C(), s = ["share", "final", "preview"].find((h) => e[h]?.state === "done") ?? "", o = e[s]?.facts, i = s ? A("inverse", { ...t, q: o?.query ?? t.q }, "png", { stage: s, ...t.w === "signed" ? { view: "signed" } : {} }) : null, c = `${t.m} ${t.x} ${t.q}`, d = n?.kind === "maps" && s === "final" ? "calibrated maps" : Yt[s], { shown: u, problem: a } = mt(i, { asked: c, query: t.q, stage: s, label: d, facts: o });
  return { shown: u, current: u?.about.asked === c, problem: a };
}
function en({ stages: e }) {
  const { view: t, model: n, set: s, inputs: o } = C(), i = z(n, t.q), [c, d] = q(!1), [u, a] = q(null), [h, f] = q(null), l = !!n?.picture && i?.coords.length === 2, p = j(c && l && i ? A("reads", { ...t, q: i.name }, "json") : null), { shown: g, current: y, problem: v } = Zt(e);
  if (!n) return null;
  const b = Object.values(e).find((S) => S.state === "failed" && S.error)?.error ?? v, _ = y && g ? g.about.stage : "none", m = p.data, x = m && h !== null ? m.share.map((S) => S[h]) : null, N = m && u !== null ? m.share[u] : null, P = o.find((S) => S.sha === t.x)?.name ?? "input", L = D(t.q).coords.split(";").filter(Boolean);
  return /* @__PURE__ */ r("section", { class: "panels", "aria-label": "Input and inverse", children: [
    /* @__PURE__ */ r("figure", { children: [
      /* @__PURE__ */ r("div", { class: "frame", onPointerEnter: () => d(!0), children: [
        /* @__PURE__ */ r(F, { path: t.x ? `/input/${t.m}/${t.x}.png` : null, alt: `${P} as the model sees it` }),
        l && /* @__PURE__ */ r(
          Xe,
          {
            rows: Math.min(Qe, n.input[1]),
            columns: Math.min(Qe, n.input[2]),
            weights: x,
            onHover: a,
            label: (S) => `place ${S.join(", ")}`
          }
        )
      ] }),
      /* @__PURE__ */ r("figcaption", { children: [
        /* @__PURE__ */ r("b", { children: P }),
        " ",
        /* @__PURE__ */ r("span", { children: nn(c && l, !!m, x ? "what the cell reads" : "hover: which cells read it") })
      ] })
    ] }),
    /* @__PURE__ */ r("figure", { children: [
      /* @__PURE__ */ r("div", { class: "frame", onPointerEnter: () => d(!0), children: [
        g ? /* @__PURE__ */ r("img", { class: `answer ${g.about.stage} ${y ? "" : "stale"}`, src: g.url, alt: `${g.about.label} of ${g.about.query}`, "data-path": g.path, draggable: !1 }) : /* @__PURE__ */ r("div", { class: "blank answer", role: "img", "aria-label": `${t.q}, on its way` }),
        l && i && /* @__PURE__ */ r(
          Xe,
          {
            rows: i.coords[0],
            columns: i.coords[1],
            weights: N,
            marked: L,
            onHover: f,
            label: (S) => `cell ${S.join(", ")}`,
            onPick: (S) => s({ q: ue({ ...D(t.q), node: i.name, coords: S.join(",") }) })
          }
        ),
        (_ === "none" || _ === "preview") && !b && /* @__PURE__ */ r(rn, { stages: e })
      ] }),
      /* @__PURE__ */ r("figcaption", { "data-stage": _, "data-query": t.q, children: y && g ? /* @__PURE__ */ r(tn, { answer: g.about }) : /* @__PURE__ */ r(U, { children: [
        /* @__PURE__ */ r("b", { children: b ? "no answer" : "on its way" }),
        " ",
        /* @__PURE__ */ r("span", { children: g && /* @__PURE__ */ r(U, { children: [
          "still shown: ",
          /* @__PURE__ */ r("code", { children: g.about.query })
        ] }) })
      ] }) })
    ] }),
    b && /* @__PURE__ */ r(E, { problem: b })
  ] });
}
function tn({ answer: { label: e, stage: t, facts: n } }) {
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
function nn(e, t, n) {
  return e ? t ? n : "working out who reads what …" : "";
}
function rn({ stages: e }) {
  const t = e.final ?? e.preview, n = t ? t.state === "queued" ? "waiting …" : t.state === "working" ? `solving, step ${t.steps}` : "" : "asking …";
  return /* @__PURE__ */ r("div", { class: "progress", role: "status", children: n });
}
function Xe(e) {
  const { rows: t, columns: n } = e;
  if (!t || !n || t * n > 4096) return null;
  const s = e.weights ? Math.max(...e.weights, 1e-9) : 1, o = (i) => {
    const c = i.currentTarget.getBoundingClientRect(), d = Math.min(t - 1, Math.max(0, Math.floor((i.clientY - c.top) / c.height * t))), u = Math.min(n - 1, Math.max(0, Math.floor((i.clientX - c.left) / c.width * n)));
    return [d, u];
  };
  return /* @__PURE__ */ r(
    "svg",
    {
      class: `cells ${e.onPick ? "pick" : ""}`,
      viewBox: `0 0 ${n} ${t}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
      onPointerMove: (i) => {
        const [c, d] = o(i);
        e.onHover(c * n + d);
      },
      onPointerLeave: () => e.onHover(null),
      onClick: (i) => e.onPick?.(o(i)),
      children: [
        e.weights?.map((i, c) => {
          const d = Math.sqrt(i / s);
          return /* @__PURE__ */ r("rect", { class: "shade", x: c % n, y: Math.floor(c / n), width: 1, height: 1, "fill-opacity": (1 - d) * 0.82 }, c);
        }),
        e.marked?.map((i) => {
          const [c, d] = i.split(",").map(Number);
          return /* @__PURE__ */ r("rect", { class: "mark", x: d, y: c, width: 1, height: 1 }, i);
        })
      ]
    }
  );
}
function yt() {
  const { view: e, inputs: t } = C(), n = t.some((s) => s.sha === e.x);
  return j(n ? `/input/${e.m}/${e.x}.json` : null).data?.tokens ?? void 0;
}
const le = (e) => e.replace(/\n/g, "↵").trim() || "␣";
function sn({ stages: e }) {
  const { view: t } = C(), n = yt(), s = ["final", "preview"].find((u) => e[u]?.state === "done"), o = s ? e[s].facts?.profile : void 0, i = Object.values(e).find((u) => u.state === "failed" && u.error), c = new Set(D(t.q).coords.split(";").filter(Boolean).map(Number)), d = o ? Math.max(...o, 1e-9) : 1;
  return /* @__PURE__ */ r("section", { class: "strip", "aria-label": "Source tokens", "data-stage": s ?? "none", "data-query": t.q, children: [
    /* @__PURE__ */ r("ol", { children: n?.map((u, a) => /* @__PURE__ */ r("li", { class: c.has(a) ? "asked" : "", title: o ? `${(100 * o[a]).toFixed(1)} % of the energy` : "", children: [
      /* @__PURE__ */ r("span", { class: "fill", style: { opacity: o ? 0.75 * (o[a] / d) : 0 } }),
      /* @__PURE__ */ r("b", { children: le(u) }),
      /* @__PURE__ */ r("small", { children: o ? `${(100 * o[a]).toFixed(0)} %` : "…" })
    ] }, a)) }),
    /* @__PURE__ */ r("p", { class: "note", children: s === "preview" ? "Preview: plain gradient, not the answer." : "Where the inverse of the framed tokens' state lies: share of its energy, token by token. Neither attention nor probability." }),
    i?.error && /* @__PURE__ */ r(E, { problem: i.error })
  ] });
}
function on() {
  const { view: e, model: t, set: n } = C(), s = yt(), { data: o, problem: i } = j(t ? A("tokens", { ...e, q: t.target }, "json") : null), c = z(t, e.q)?.name ?? D(e.q).node, d = Number(D(e.q).coords.split(";")[0] || 0);
  if (i) return /* @__PURE__ */ r(E, { problem: i });
  if (!o || !s) return /* @__PURE__ */ r("p", { class: "note", role: "status", children: "Reading out every layer …" });
  const u = o.rows.find((a) => a.node === c);
  return /* @__PURE__ */ r("div", { class: "tokens", children: [
    /* @__PURE__ */ r("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Layer by position", children: /* @__PURE__ */ r("table", { children: [
      /* @__PURE__ */ r("thead", { children: /* @__PURE__ */ r("tr", { children: [
        /* @__PURE__ */ r("th", { scope: "col", children: "layer" }),
        s.map((a, h) => /* @__PURE__ */ r("th", { scope: "col", children: le(a) }, h))
      ] }) }),
      /* @__PURE__ */ r("tbody", { children: [...o.rows].reverse().map((a) => /* @__PURE__ */ r("tr", { children: [
        /* @__PURE__ */ r("th", { scope: "row", children: /* @__PURE__ */ r("code", { children: a.node.replace(/^.*?(\d+)(\D*)$/, "$1$2") }) }),
        s.map((h, f) => /* @__PURE__ */ r("td", { children: /* @__PURE__ */ r(
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
          u.lens,
          " at ",
          u.node,
          ", position ",
          d
        ] })
      ] }),
      /* @__PURE__ */ r("ol", { children: u.next[d]?.map((a, h) => /* @__PURE__ */ r("li", { children: [
        /* @__PURE__ */ r("b", { children: le(a) }),
        " ",
        /* @__PURE__ */ r("small", { children: [
          (100 * u.odds[d][h]).toFixed(1),
          " %"
        ] })
      ] }, h)) }),
      /* @__PURE__ */ r("p", { class: "note", children: [
        "The residual state after this layer, ",
        u.lens === "logit lens" ? "read out by the final norm and the unembedding as if the model ended here." : "carried to the end by the matrix of your Jacobian lens, then read out by the final norm and the unembedding."
      ] })
    ] })
  ] });
}
const ln = {
  follows: ["good", "The picture follows its target"],
  swapped: ["fair", "Another input's target gives nearly this picture"],
  untried: ["plain", "Unlike a random target's picture; no other input was tried"],
  alike: ["fair", "Follows its target, but its neighbours look alike"],
  "operating point": ["bad", "A picture of the operating point, not of the feature"],
  unclear: ["fair", "Cannot tell: random targets come too near the threshold"],
  silent: ["plain", "The feature registered nothing here: its answer is zero"],
  single: ["plain", "One number: a target can only scale its picture"]
};
function an({ stages: e }) {
  const { view: t, model: n, inputs: s } = C(), o = e.trust, i = o?.state === "done" ? o.facts : void 0, [c, d] = ln[i?.verdict ?? ""] ?? ["wait", "Checking …"], u = e.final?.facts, a = s.find((f) => f.sha === i?.other)?.name, h = (f) => i && n?.picture ? A("trust", { ...t, q: i.query }, "png", { part: f }) : null;
  return /* @__PURE__ */ r("aside", { class: `trust ${c}`, "aria-label": "Trust", children: [
    /* @__PURE__ */ r("h2", { children: "Trust" }),
    /* @__PURE__ */ r("p", { class: "verdict", role: "status", "data-verdict": i?.verdict ?? "", children: o?.state === "failed" ? "The controls could not be worked out." : d }),
    i?.verdict === "operating point" && /* @__PURE__ */ r("p", { class: "plain", children: "Random targets give pictures like this. It shows what the model computes around this input, whatever the feature says." }),
    i?.verdict === "swapped" && /* @__PURE__ */ r("p", { class: "plain", children: "It changes with a random target, but hardly with another input's: what is seen is mostly this input's operating point." }),
    /* @__PURE__ */ r("dl", { children: [
      /* @__PURE__ */ r(ye, { name: "random target", value: i?.random, note: i && i.random === null ? "one number" : "near 0 is good", ready: !!i }),
      /* @__PURE__ */ r(ye, { name: a ? `${a}'s target` : "another input's target", value: i?.swapped, note: i && i.swapped === null ? "no other input" : "low is good", ready: !!i }),
      /* @__PURE__ */ r(ye, { name: "neighbouring queries", value: i?.neighbours, note: i && i.neighbours === null ? "none" : "low: selective", ready: !!i }),
      /* @__PURE__ */ r("div", { children: [
        /* @__PURE__ */ r("dt", { children: "zero target" }),
        /* @__PURE__ */ r("dd", { children: i ? i.zero === 0 ? "exactly zero" : `up to ${i.zero?.toExponential(1)}` : "…" })
      ] })
    ] }),
    n?.picture && /* @__PURE__ */ r("div", { class: "controls", children: [
      i?.random !== null && /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(F, { path: h("random"), alt: "What a random target gives" }),
        /* @__PURE__ */ r("figcaption", { children: "random target" })
      ] }),
      i?.swapped !== null && /* @__PURE__ */ r("figure", { children: [
        /* @__PURE__ */ r(F, { path: h("swapped"), alt: "What another input's target gives" }),
        /* @__PURE__ */ r("figcaption", { children: a ? `${a}'s target` : "swapped target" })
      ] })
    ] }),
    i?.sentence && /* @__PURE__ */ r("p", { class: "sentence", children: i.sentence }),
    /* @__PURE__ */ r("h3", { children: "This answer" }),
    /* @__PURE__ */ r("dl", { class: "small", children: [
      /* @__PURE__ */ r(ne, { name: "cosine with the input", value: u?.cosine?.toFixed(2) }),
      /* @__PURE__ */ r(ne, { name: "residual of the solve", value: u?.residual?.toFixed(3) }),
      /* @__PURE__ */ r(ne, { name: "steps", value: u?.steps !== void 0 ? u.steps === 0 ? "exact" : String(u.steps) : void 0 }),
      /* @__PURE__ */ r(ne, { name: "numbers asked for", value: i?.numbers?.toLocaleString("en") })
    ] }),
    n?.kind === "maps" && /* @__PURE__ */ r(cn, { id: n.id })
  ] });
}
function cn({ id: e }) {
  const { data: t } = j(`/quality/${e}.json`);
  if (!t) return null;
  const n = (i) => typeof i == "number" ? `${(100 * i).toFixed(1)} %` : "–", s = t.nodes.find((i) => i.name === "input"), o = s && (s.unseen.length ? s.unseen[s.unseen.length - 1] : s.seen);
  return /* @__PURE__ */ r("section", { class: "maps", "aria-label": "These maps", children: [
    /* @__PURE__ */ r("h3", { children: "These maps" }),
    t.why && /* @__PURE__ */ r("p", { class: "plain", children: t.why }),
    s && /* @__PURE__ */ r("p", { class: "plain", "data-missed": o ?? "", children: [
      "Miss ",
      n(o),
      " of the input's energy on ",
      s.unseen.length ? "samples they have not seen" : "the samples they were fitted to, after the first map",
      "."
    ] }),
    t.nodes.length > 0 && /* @__PURE__ */ r("details", { children: [
      /* @__PURE__ */ r("summary", { children: "Every node, and advice" }),
      /* @__PURE__ */ r("table", { children: [
        /* @__PURE__ */ r("thead", { children: /* @__PURE__ */ r("tr", { children: [
          /* @__PURE__ */ r("th", { scope: "col", children: "node" }),
          /* @__PURE__ */ r("th", { scope: "col", children: "seen" }),
          /* @__PURE__ */ r("th", { scope: "col", children: "unseen" }),
          /* @__PURE__ */ r("th", { scope: "col", children: "lost" })
        ] }) }),
        /* @__PURE__ */ r("tbody", { children: t.nodes.map((i) => /* @__PURE__ */ r("tr", { children: [
          /* @__PURE__ */ r("th", { scope: "row", children: /* @__PURE__ */ r("code", { children: i.name }) }),
          /* @__PURE__ */ r("td", { children: n(i.seen) }),
          /* @__PURE__ */ r("td", { children: n(i.unseen[i.unseen.length - 1]) }),
          /* @__PURE__ */ r("td", { children: n(i.lost) })
        ] }, i.name)) })
      ] }),
      (t.advice.length ? t.advice : ["Nothing stands out."]).map((i) => /* @__PURE__ */ r("p", { class: "plain", children: i }, i))
    ] })
  ] });
}
function ye({ name: e, value: t, note: n, ready: s }) {
  const o = typeof t == "number";
  return /* @__PURE__ */ r("div", { children: [
    /* @__PURE__ */ r("dt", { children: e }),
    /* @__PURE__ */ r("dd", { children: [
      /* @__PURE__ */ r("span", { class: "bar", "aria-hidden": "true", children: /* @__PURE__ */ r("span", { style: { width: `${o ? Math.min(1, Math.abs(t)) * 100 : 0}%` } }) }),
      /* @__PURE__ */ r("b", { children: o ? t.toFixed(2) : s ? "–" : "…" }),
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
const dn = { grid: "Grid", compare: "Compare", decide: "Decide", tokens: "Tokens" };
function wt({ transport: e, start: t }) {
  const [n, s] = q([]), [o, i] = q([]), [c, d] = q(() => Je(t)), [u, a] = q(null), [h, f] = q(""), l = He(async () => {
    const v = await Ce(e, "/api/inputs");
    return i(v), v;
  }, [e]);
  O(() => {
    Promise.all([Ce(e, "/api/models").then(s), l()]).catch((v) => a(V(v)));
  }, [e]), O(() => {
    if (!e.page) return;
    const v = () => d(Je(location.hash));
    return addEventListener("hashchange", v), () => removeEventListener("hashchange", v);
  }, [e]);
  const p = He((v, b = !1) => {
    d((_) => {
      const m = { ..._, ...v };
      return e.page && history[b ? "replaceState" : "pushState"](null, "", `#${gt(m)}`), m;
    });
  }, [e]), g = n.find((v) => v.id === c.m);
  O(() => {
    if (!n.length) return;
    const v = n.find((_) => _.id === c.m) ?? (c.m ? void 0 : n[0]);
    if (!v) return;
    const b = {};
    v.id !== c.m && (b.m = v.id), c.x || (b.x = o.find((_) => _.lenses.includes(v.id))?.sha ?? ""), c.q || (b.q = un(v)), b.x === "" && delete b.x, Object.keys(b).length && p(b, !0);
  }, [n, o, c.m, c.x, c.q]);
  const y = Z(() => ({ transport: e, models: n, inputs: o, view: c, model: g, set: p, refresh: l, say: f }), [e, n, o, c, g, p, l]);
  return u ? /* @__PURE__ */ r("main", { class: "alone", children: [
    /* @__PURE__ */ r("h1", { children: "sgfi explorer" }),
    /* @__PURE__ */ r(E, { problem: u })
  ] }) : /* @__PURE__ */ r(_t.Provider, { value: y, children: /* @__PURE__ */ r(hn, { said: h }) });
}
function un(e) {
  const t = e.nodes[Math.floor(e.nodes.length / 3)] ?? e.nodes[e.nodes.length - 1];
  return e.text ? `${t.name}@1` : t.name;
}
function hn({ said: e }) {
  const t = C(), { view: n, model: s, set: o, inputs: i } = t, [c, d] = q(!1), [u, a] = q(!1), [h, f] = q(!1), l = fe(null), p = i.some((b) => b.sha === n.x), g = s && p && n.q ? { lens: n.m, input: n.x, query: n.q, stages: ["preview", "final", "trust", ...n.s ? ["share"] : []] } : null, y = ee(g);
  gn(t, { open: () => d((b) => !b), help: () => a((b) => !b), take: () => f((b) => !b), query: () => {
    l.current?.focus(), l.current?.select();
  } });
  const v = z(s, n.q);
  return /* @__PURE__ */ r("div", { class: "workbench", children: [
    /* @__PURE__ */ r("a", { class: "skip", href: "#result", onClick: (b) => {
      b.preventDefault(), document.getElementById("result")?.focus();
    }, children: "Skip to the answer" }),
    /* @__PURE__ */ r("header", { children: [
      /* @__PURE__ */ r("h1", { children: "sgfi" }),
      /* @__PURE__ */ r("button", { type: "button", class: "where", "aria-expanded": c, onClick: () => d(!c), children: [
        /* @__PURE__ */ r("b", { children: s?.title ?? "model" }),
        " ",
        /* @__PURE__ */ r("span", { children: i.find((b) => b.sha === n.x)?.name ?? "input" })
      ] }),
      /* @__PURE__ */ r(_n, { box: l }),
      /* @__PURE__ */ r("div", { class: "switches", children: [
        /* @__PURE__ */ r("button", { type: "button", "aria-pressed": n.s, title: "Fade what the feature does not determine (s)", onClick: () => o({ s: !n.s }), children: "share" }),
        /* @__PURE__ */ r("button", { type: "button", "aria-pressed": n.w === "signed", title: "Signed colours: red above zero, blue below (w)", onClick: () => o({ w: n.w === "signed" ? "natural" : "signed" }), children: "signed" }),
        /* @__PURE__ */ r(fn, {}),
        /* @__PURE__ */ r("button", { type: "button", "aria-expanded": h, title: "Export what is shown (e)", onClick: () => f(!h), children: "export" }),
        /* @__PURE__ */ r("button", { type: "button", "aria-expanded": u, title: "Keyboard (?)", onClick: () => a(!u), children: "?" })
      ] })
    ] }),
    u && /* @__PURE__ */ r(mn, {}),
    h && /* @__PURE__ */ r(Ft, {}),
    c && /* @__PURE__ */ r(Xt, { close: () => d(!1) }),
    n.m && t.models.length > 0 && !s && /* @__PURE__ */ r(E, { problem: { expected: "an open model", got: n.m, todo: "This link is for a model that is not open here: name it when you start sgfi explore." } }),
    n.x && i.length > 0 && !p && /* @__PURE__ */ r(E, { problem: { expected: "a known input", got: n.x.slice(0, 12), todo: "This link is for an input that is not on this computer. Add it, or choose another." } }),
    /* @__PURE__ */ r("div", { class: "columns", children: [
      /* @__PURE__ */ r(Qt, {}),
      /* @__PURE__ */ r("main", { id: "result", tabIndex: -1, children: [
        /* @__PURE__ */ r("h2", { class: "query", children: [
          /* @__PURE__ */ r("code", { children: n.q || "…" }),
          " ",
          v && /* @__PURE__ */ r("small", { children: [
            "of ",
            vt(v)
          ] })
        ] }),
        s?.picture && p && /* @__PURE__ */ r(en, { stages: y }),
        s?.text && p && /* @__PURE__ */ r(sn, { stages: y }),
        p && /* @__PURE__ */ r(pn, {})
      ] }),
      /* @__PURE__ */ r(an, { stages: y })
    ] }),
    /* @__PURE__ */ r("div", { class: "said", role: "status", "aria-live": "polite", children: e })
  ] });
}
function pn() {
  const { view: e, set: t, model: n } = C(), s = n?.text ? ["tokens", "grid"] : ["grid", "compare", "decide"], o = s.find((i) => i === e.v) ?? s[0];
  return /* @__PURE__ */ r("section", { class: "tabs", children: [
    /* @__PURE__ */ r("div", { role: "tablist", "aria-label": "Below the pictures", children: s.map((i) => /* @__PURE__ */ r("button", { type: "button", role: "tab", id: `tab-${i}`, "aria-selected": o === i, "aria-controls": "tab-body", onClick: () => t({ v: i }), children: dn[i] }, i)) }),
    /* @__PURE__ */ r("div", { role: "tabpanel", id: "tab-body", "aria-labelledby": `tab-${o}`, children: [
      n && o === "grid" && /* @__PURE__ */ r(zt, {}),
      n && o === "compare" && /* @__PURE__ */ r(It, {}),
      n && o === "decide" && /* @__PURE__ */ r(Ht, {}),
      n && o === "tokens" && /* @__PURE__ */ r(on, {})
    ] })
  ] });
}
function _n({ box: e }) {
  const { view: t, set: n } = C(), [s, o] = q(t.q);
  return O(() => o(t.q), [t.q]), /* @__PURE__ */ r("form", { class: "querybox", onSubmit: (i) => {
    i.preventDefault(), n({ q: s.trim() }), e.current?.blur();
  }, children: [
    /* @__PURE__ */ r("label", { children: [
      /* @__PURE__ */ r("span", { class: "hidden", children: "Query" }),
      /* @__PURE__ */ r(
        "input",
        {
          ref: e,
          value: s,
          spellcheck: !1,
          autocomplete: "off",
          placeholder: "layer3.1.add:17@2,3",
          onInput: (i) => o(i.currentTarget.value),
          onKeyDown: (i) => {
            i.key === "Escape" && (o(t.q), i.currentTarget.blur());
          }
        }
      )
    ] }),
    /* @__PURE__ */ r("button", { type: "submit", children: "Ask" })
  ] });
}
function fn() {
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
function mn() {
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
function gn(e, t) {
  const n = fe({ session: e, act: t });
  n.current = { session: e, act: t }, O(() => {
    if (!e.transport.page) return;
    const s = (o) => {
      const i = o.target;
      if (o.ctrlKey || o.metaKey || o.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(i.tagName)) return;
      const { session: { view: c, model: d, set: u, inputs: a }, act: h } = n.current, f = z(d, c.q), l = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -1, ArrowRight: 1, "[": -1, "]": 1 }[o.key] ?? 0;
      if (d && f && (o.key === "ArrowUp" || o.key === "ArrowDown")) {
        const p = d.nodes[d.nodes.indexOf(f) + l];
        p && u({ q: bt(c.q, f, p) });
      } else if (f && (o.key === "ArrowLeft" || o.key === "ArrowRight")) u({ q: Dt(c.q, f, l) });
      else if (o.key === "[" || o.key === "]") {
        const p = a.filter((y) => d && y.lenses.includes(d.id)), g = p.findIndex((y) => y.sha === c.x);
        p.length && u({ x: p[(g + l + p.length) % p.length].sha });
      } else if (o.key === "/") h.query();
      else if (o.key === "o") h.open();
      else if (o.key === "s") u({ s: !c.s });
      else if (o.key === "w") u({ w: c.w === "signed" ? "natural" : "signed" });
      else if (o.key === "?") h.help();
      else if (o.key === "e") h.take();
      else if (!d?.text && "gcd".includes(o.key)) u({ v: { g: "grid", c: "compare", d: "decide" }[o.key] });
      else return;
      o.preventDefault();
    };
    return addEventListener("keydown", s), () => removeEventListener("keydown", s);
  }, [e.transport]);
}
const Ye = typeof document > "u" ? null : document.getElementById("sgfi-explorer");
if (Ye) {
  const e = new URLSearchParams(location.search).get("token") ?? "";
  $e(/* @__PURE__ */ r(wt, { transport: new Lt(e), start: location.hash }), Ye);
}
function bn({ model: e, el: t }) {
  const n = new Rt(e);
  return t.classList.add("sgfi-widget"), $e(/* @__PURE__ */ r(wt, { transport: n, start: e.get("start") }), t), () => {
    $e(null, t), n.close();
  };
}
const vn = { render: bn };
export {
  vn as default
};
